import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { inject } from "vitest";

/** An empty database of its own for one test file. */
export interface FreshDatabase {
  readonly url: string;
  /** Removes it, also while sessions are open. */
  drop(): Promise<void>;
}

/** Makes an empty UTF-8 database on the Postgres of this test run. */
export async function createDatabase(): Promise<FreshDatabase> {
  const name = `test_${randomBytes(6).toString("hex")}`;
  await runAsOwner(`CREATE DATABASE ${name} TEMPLATE template0 ENCODING 'UTF8'`);
  const url = new URL(inject("postgresUrl"));
  url.pathname = `/${name}`;
  return { url: url.href, drop: () => runAsOwner(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`) };
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
