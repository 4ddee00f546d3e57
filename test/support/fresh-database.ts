import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { inject } from "vitest";

/** Database for one test at a time. */
export interface TestDatabase {
  readonly url: string;
  /** Ends the test's use. A new database is removed, even while sessions are open. */
  release(): Promise<void>;
}

/** Creates an empty UTF-8 database on the Postgres of this test run. */
export async function createDatabase(): Promise<TestDatabase> {
  const name = `test_${randomBytes(6).toString("hex")}`;
  await runAsOwner(`CREATE DATABASE ${name} TEMPLATE template0 ENCODING 'UTF8'`);
  const url = new URL(inject("postgresUrl"));
  url.pathname = `/${name}`;
  return { url: url.href, release: () => runAsOwner(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`) };
}

async function runAsOwner(statement: string): Promise<void> {
  const client = new Client({ connectionString: inject("postgresUrl") });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
