import { chown, readFile } from "node:fs/promises";
import { FixConfigurationError } from "../../errors.ts";

/** The account that the server runs under when we are root, which Postgres refuses to run as. */
export interface ServerUser {
  /** For messages. */
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** Accounts that nearly every system has and that own nothing of worth, best first. */
const PREFERRED = ["postgres", "_postgres", "nobody", "daemon"];

/** True if this process may change to another user and has to, because Postgres won't run as root. */
export function isRoot(): boolean {
  return process.getuid?.() === 0;
}

/**
 * Who runs the server: null for ourselves; as root the owner of the existing data, else an account without rights.
 * initdb wants an account that stands in the system's list, so a bare number won't do.
 */
export async function chooseServerUser(
  owner: { uid: number; gid: number } | null,
): Promise<ServerUser | null> {
  if (!isRoot()) return null;
  if (owner !== null && owner.uid !== 0) return { name: `uid ${owner.uid}`, uid: owner.uid, gid: owner.gid };
  const accounts = parseAccounts(await readFile("/etc/passwd", "utf8").catch(() => ""));
  const preferred = PREFERRED.flatMap((name) => accounts.filter((account) => account.name === name));
  const chosen = preferred[0] ?? accounts[0];
  if (chosen) return chosen;
  throw new FixConfigurationError(
    "embedded_user",
    "Postgres refuses to run as root, and /etc/passwd names no other account that the embedded database could run as. " +
      "Run person-etl as an ordinary user, or set warehouse.url to a Postgres of your own.",
  );
}

/** The accounts of an /etc/passwd that a server may run as: not root, and with ids that fit a spawn. */
export function parseAccounts(passwd: string): ServerUser[] {
  return passwd
    .split("\n")
    .map((line) => line.split(":"))
    .map(([name = "", , uid = "", gid = ""]) => ({ name, uid: Number(uid || "0"), gid: Number(gid || "0") }))
    .filter(({ name, uid, gid }) => name !== "" && uid > 0 && uid < 2 ** 31 && gid > 0 && gid < 2 ** 31);
}

/** Gives a file or folder to the server's user, if that is not ourselves. */
export async function giveTo(user: ServerUser | null, path: string): Promise<void> {
  if (user) await chown(path, user.uid, user.gid);
}
