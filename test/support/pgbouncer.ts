import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, cp, mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { inject } from "vitest";
import { chooseServerUser, giveTo } from "../../src/load/embedded/programs.ts";
import { findPgBouncer } from "./find-pgbouncer.ts";
import { unusedPort } from "./unused-port.ts";

/** A PgBouncer in transaction mode in front of this run's Postgres. */
export interface Pooler {
  /** Address of a database of that server, through the pooler. */
  through(databaseUrl: string): string;
  stop(): Promise<void>;
}

let route: Pooler | null = null;

/** Has the contexts and worlds of this file reach their databases through a pooler. */
export function reachThrough(pooler: Pooler | null): void {
  route = pooler;
}

/** Address at which tests reach a database. */
export function routeTo(databaseUrl: string): string {
  return route?.through(databaseUrl) ?? databaseUrl;
}

const START_TIMEOUT_MS = 60_000;

/** Timeout of the hook that calls {@link startPooler}: the first call of a checkout may download the program. */
export const POOLER_TIMEOUT_MS = 600_000;

/** Starts PgBouncer with that many connections to each database; it ends with `stop` or with this process. */
export async function startPooler({ connections = 4 } = {}): Promise<Pooler> {
  const program = await findPgBouncer();
  const server = new URL(inject("postgresUrl"));
  // It refuses to run as root, so its user must be able to read all files.
  const user = await chooseServerUser(null);
  const folder = await mkdtemp(join(inject("runFolder"), "pgbouncer-"));
  await chmod(folder, 0o755);
  const file = join(folder, "pgbouncer");
  await cp(program.file, file);
  const libraries = join(folder, "libraries");
  if (program.libraries) await cp(program.libraries, libraries, { recursive: true });
  const port = await unusedPort();
  const config = join(folder, "pgbouncer.ini");
  await writeFile(config, configOf(server, port, connections), { mode: 0o600 });
  await giveTo(user, config);
  // The shell ends it when this process is gone, even after a kill.
  const child = spawn("sh", ["-c", '"$0" "$1" & pid=$!; cat; kill -INT $pid; wait $pid', file, config], {
    stdio: ["pipe", "ignore", "pipe"],
    env: { PATH: process.env["PATH"] ?? "", LD_LIBRARY_PATH: libraries },
    ...(user ? { uid: user.uid, gid: user.gid } : {}),
  });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said = (said + text).slice(-4000);
  });
  const ended = once(child, "close");
  const pooler: Pooler = {
    through(databaseUrl) {
      const url = new URL(databaseUrl);
      url.hostname = "127.0.0.1";
      url.port = String(port);
      return url.href;
    },
    async stop() {
      child.stdin.end();
      await ended;
    },
  };
  try {
    await waitUntilReady(pooler.through(server.href));
  } catch (error) {
    await pooler.stop();
    throw new Error(`PgBouncer didn't start:\n${said}`, { cause: error });
  }
  return pooler;
}

/** Settings: server sessions are lent to a client for one transaction, and there are fewer than clients. */
function configOf(server: URL, port: number, connections: number): string {
  const password = decodeURIComponent(server.password).replaceAll("'", "''");
  return `[databases]
* = host=${server.hostname} port=${server.port || "5432"} user=${decodeURIComponent(server.username)} password='${password}'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${connections}
max_client_conn = 200
`;
}

async function waitUntilReady(url: string): Promise<void> {
  const until = performance.now() + START_TIMEOUT_MS;
  for (;;) {
    const client = new Client({ connectionString: url, connectionTimeoutMillis: 2000 });
    try {
      await client.connect();
      await client.query("SELECT 1");
      return;
    } catch (error) {
      if (performance.now() > until) throw error;
      await delay(50);
    } finally {
      await client.end().catch(() => {});
    }
  }
}
