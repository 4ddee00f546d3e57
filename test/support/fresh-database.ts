import { randomBytes } from "node:crypto";
import { inject } from "vitest";
import { runSql } from "./run-sql.ts";

/** Database for one test at a time. */
export interface TestDatabase {
  readonly url: string;
  /** Returns what has this name; it is opened once and stays open, with warm connections, until the database is removed. */
  keep<T extends Closable>(name: string, open: (url: string) => T): T;
  /** Ends the test's use. A new database is removed, even while sessions are open. */
  release(): Promise<void>;
}

interface Closable {
  close(): Promise<void>;
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
  const kept = new Map<string, Closable>();
  return {
    url: url.href,
    keep(name, open) {
      const one = kept.get(name) ?? open(url.href);
      kept.set(name, one);
      // What has this name was opened by the same function.
      return one as ReturnType<typeof open>;
    },
    async release() {
      for (const one of kept.values()) await one.close();
      await runSql(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    },
  };
}
