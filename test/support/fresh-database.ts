import { randomBytes } from "node:crypto";
import { Pool } from "pg";
import { inject } from "vitest";

/** Database of a test. */
export interface TestDatabase {
  readonly url: string;
  /** Removes it, even while sessions are open. */
  release(): Promise<void>;
}

/** Creates a UTF-8 database, empty or a copy, on the Postgres of this test run. */
export async function createDatabase(
  server: string = inject("postgresUrl"),
  template = "template0",
  prefix = "test_",
): Promise<TestDatabase> {
  const name = `${prefix}${randomBytes(6).toString("hex")}`;
  const { pool, strategy } = await administer(server);
  await pool.query(`CREATE DATABASE ${name} TEMPLATE ${template} ENCODING 'UTF8' ${strategy}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return {
    url: url.href,
    async release() {
      await pool.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    },
  };
}

/** Session that creates and drops databases. */
interface Administration {
  readonly pool: Pool;
  /** Since version 15, Postgres copies databases through its log by default, which takes twice as long. */
  readonly strategy: string;
}

const administrations = new Map<string, Promise<Administration>>();

/** Keeps one session per server: connecting takes as long as creating a database. */
function administer(server: string): Promise<Administration> {
  const open = async () => {
    const pool = new Pool({
      connectionString: server,
      max: 1,
      idleTimeoutMillis: 0,
      allowExitOnIdle: true,
    });
    // The server stops before this process ends.
    pool.on("error", () => {});
    const { rows } = await pool.query<{ version: number }>(
      "SELECT current_setting('server_version_num')::int AS version",
    );
    return { pool, strategy: (rows[0]?.version ?? 0) >= 150000 ? "STRATEGY FILE_COPY" : "" };
  };
  const opened = administrations.get(server) ?? open();
  administrations.set(server, opened);
  return opened;
}
