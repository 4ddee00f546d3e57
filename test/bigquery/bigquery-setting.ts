import { randomBytes } from "node:crypto";
import { sql } from "kysely";
import { inject } from "vitest";
import { openClient } from "../../src/load/bigquery/client.ts";
import { openSession, type Session } from "../../src/load/bigquery/session.ts";
import { STAGING_PREFIX, tablesNamed } from "../../src/load/bigquery/staging.ts";
import { tables } from "../../src/schemas/registry.ts";
import { atEnd } from "../cli/support/at-end.ts";
import { makeFolder } from "../cli/support/cli.ts";
import { API_KEY, CREATE_CUSTOMERS, INSERT_CUSTOMERS, sampleRows } from "../cli/support/setting.ts";
import { openPostgresPlace } from "../load/postgres-place.ts";
import type { TestBigQuery } from "../support/bigquery-emulator.ts";
import { openMirror } from "../support/bigquery-mirror.ts";
import { type ContentsOptions, readContents, type TableContents } from "../support/comparable-tables.ts";

/** A warehouse in BigQuery that the command fills, and a folder for its configuration. */
export interface BigQuerySetting {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly session: Session;
  /** For `warehouse:`; with another address of the emulator where one is given. */
  warehouse(apiEndpoint?: string): string;
  /** Runs a statement of Postgres's on what BigQuery held after the last run; what it changes is brought there at once. */
  query(text: string, params?: readonly unknown[]): Promise<Record<string, unknown>[]>;
  /** To be told after each run. */
  readonly hasRun: () => void;
  /** Fills `crm.customers` as a user's own table. */
  createCustomers(rows: number): Promise<void>;
  /** Every table of a dataset, `person_data` unless told otherwise. */
  contents(options: ContentsOptions): Promise<TableContents>;
  /** Staging tables that are there. */
  staging(): Promise<readonly string[]>;
}

/** Makes datasets of a test's own: in an emulator in a project of its own. They go when the test file ends. */
export async function makeBigQuerySetting({
  project: given,
  apiEndpoint,
}: TestBigQuery): Promise<BigQuerySetting> {
  const id = randomBytes(4).toString("hex");
  const [project, data] = apiEndpoint === null ? [given, `night_${id}`] : [`night-${id}`, "person_data"];
  const names = { project, data, ops: `${data}_ops` };
  const client = openClient({ project, credentialsFile: null, impersonate: null, apiEndpoint });
  const session = openSession({ client, names, location: null, maximumBytesBilled: null });
  const place = await openPostgresPlace();
  const written = new Set(tables.map(({ name }) => name));
  const mirror = await openMirror(place.client, { session, folder: inject("runFolder"), written });
  atEnd(async () => {
    await mirror.close();
    await place.close();
    for (const dataset of [names.data, names.ops, "crm"]) {
      await session.change(sql`DROP SCHEMA IF EXISTS ${sql.id(dataset)} CASCADE`);
    }
  });
  const query: BigQuerySetting["query"] = async (text, params) => {
    const rows = await mirror.sql(text, params);
    await mirror.flush();
    return [...rows];
  };
  return {
    cwd: await makeFolder(),
    env: { PERSON_SERVICE_API_KEY: API_KEY },
    session,
    warehouse(through) {
      const address = through ?? apiEndpoint;
      const endpoint = address === null ? "" : `, api_endpoint: "${address}"`;
      return `{ type: bigquery, project: ${project}, schema: ${names.data}, ops_schema: ${names.ops}, location: US${endpoint} }`;
    },
    query,
    hasRun: () => mirror.forget(),
    async createCustomers(rows) {
      await mirror.sql(CREATE_CUSTOMERS);
      await mirror.sql(INSERT_CUSTOMERS, [JSON.stringify(sampleRows(rows))]);
      await mirror.flush();
    },
    async contents(options) {
      mirror.forget();
      await mirror.prefetch("data");
      return readContents(place.client, options);
    },
    staging: () => tablesNamed(session, STAGING_PREFIX),
  };
}
