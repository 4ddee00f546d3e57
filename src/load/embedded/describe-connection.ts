import { join } from "node:path";
import type { Server } from "./server.ts";
import { logPath } from "./server-log.ts";
import { DATABASE, ROLE } from "./settings.ts";

/** Lines for people: how to look into the database, during a run and between runs. */
export function describeConnection({ place, binaries }: Server, port: number): string[] {
  const passwordFile = join(place.control, "password");
  const { user } = place;
  const pgCtl = [
    ...(user ? ["setpriv", `--reuid=${user.uid}`, `--regid=${user.gid}`, "--clear-groups"] : []),
    binaries.pgCtl,
    "-D",
    place.data,
    "-l",
    logPath(place),
  ];
  return [
    `psql:          PGPASSWORD=$(cat ${quote(passwordFile)}) psql -h 127.0.0.1 -p ${port} -U ${ROLE} ${DATABASE}`,
    `BI tools:      PostgreSQL, host 127.0.0.1, port ${port}, database ${DATABASE}, user ${ROLE}, no SSL, password: the line in ${passwordFile}`,
    `between runs:  ${pgCtl.map(quote).join(" ")} start`,
    `data:          ${place.data} (kept between runs)`,
  ];
}

/** As a word for a shell. */
function quote(path: string): string {
  return /^[\w./@:+=-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
