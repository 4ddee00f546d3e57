import { randomBytes } from "node:crypto";
import { sql } from "kysely";
import { inject } from "vitest";
import { openClient } from "../../src/load/bigquery/client.ts";
import { openSession, type Session } from "../../src/load/bigquery/session.ts";
import { findBigQuery, type TestBigQuery } from "./bigquery-emulator.ts";

/** The BigQuery of this test run; null where none can be had, which is said loudly, and fails with CI=true. */
export async function bigQueryOfRun(): Promise<TestBigQuery | null> {
  const found = await findBigQuery(inject("runFolder"));
  if (found) return found;
  const message =
    "THE BIGQUERY SUITE DID NOT RUN: neither a Docker daemon nor Python 3.13 is there, and BIGQUERY_EMULATOR_HOST names no emulator.";
  if (process.env["CI"] === "true") throw new Error(message);
  process.stderr.write(`\n${message}\n\n`);
  return null;
}

/** Two datasets of a test's own. */
export interface FreshDatasets {
  readonly project: string;
  readonly apiEndpoint: string | null;
  readonly data: string;
  readonly ops: string;
  /** A way of its own to them. */
  readonly session: Session;
  /** Removes them. */
  drop(): Promise<void>;
}

/** Names datasets that nobody else has; they are made by the warehouse's migration, or with `create`. */
export async function freshDatasets(
  { project, apiEndpoint }: TestBigQuery,
  { create }: { readonly create: boolean },
): Promise<FreshDatasets> {
  const data = `test_${randomBytes(6).toString("hex")}`;
  const names = { project, data, ops: `${data}_ops` };
  const client = openClient({ project, credentialsFile: null, impersonate: null, apiEndpoint });
  const session = openSession({ client, names, location: null, maximumBytesBilled: null });
  if (create) {
    for (const name of [names.data, names.ops]) await session.change(sql`CREATE SCHEMA ${sql.id(name)}`);
  }
  return {
    ...names,
    apiEndpoint,
    session,
    async drop() {
      for (const name of [names.data, names.ops]) {
        await session.change(sql`DROP SCHEMA IF EXISTS ${sql.id(name)} CASCADE`);
      }
    },
  };
}
