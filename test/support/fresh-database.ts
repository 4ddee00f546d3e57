import { randomBytes } from "node:crypto";
import { inject } from "vitest";
import { runSql } from "./run-sql.ts";

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
  await runSql(server, `CREATE DATABASE ${name} TEMPLATE ${template} ENCODING 'UTF8'`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return {
    url: url.href,
    async release() {
      await runSql(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    },
  };
}
