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
  const strategy = await fastStrategyOf(server);
  await runSql(server, `CREATE DATABASE ${name} TEMPLATE ${template} ENCODING 'UTF8' ${strategy}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return {
    url: url.href,
    async release() {
      await runSql(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    },
  };
}

const strategies = new Map<string, string>();

/** Since version 15, Postgres copies databases through its log by default, which takes twice as long. */
async function fastStrategyOf(server: string): Promise<string> {
  const known = strategies.get(server);
  if (known !== undefined) return known;
  const [row] = await runSql(
    server,
    "SELECT current_setting('server_version_num')::int >= 150000 AS has_strategy",
  );
  const strategy = row?.["has_strategy"] === true ? "STRATEGY FILE_COPY" : "";
  strategies.set(server, strategy);
  return strategy;
}
