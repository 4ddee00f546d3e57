import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { sql } from "kysely";
import { inject } from "vitest";
import { type Client, openClient } from "../../src/load/bigquery/client.ts";
import { openSession, type Session } from "../../src/load/bigquery/session.ts";
import { tablesNamed } from "../../src/load/bigquery/staging.ts";
import { explainFailure } from "../../src/load/bigquery/explain-failure.ts";
import { openBigQueryWarehouse } from "../../src/load/bigquery/warehouse.ts";
import { openForeignDatabase } from "../../src/load/open.ts";
import { keepForeignDatabases } from "../../src/load/foreign-database.ts";
import { explainFailures } from "../../src/load/explained-warehouse.ts";
import type { Warehouse } from "../../src/load/warehouse.ts";
import type { TestBigQuery } from "../support/bigquery-emulator.ts";
import { type Mirror, openMirror } from "../support/bigquery-mirror.ts";
import { openPostgresPlace } from "./postgres-place.ts";
import type { Place } from "./suite/place.ts";

/** A place in BigQuery. */
export interface BigQueryPlace extends Place {
  readonly session: Session;
  readonly mirror: Mirror;
  /** Where the warehouse's files are. */
  readonly workFolder: string;
}

/** Opens a warehouse in datasets of its own: in an emulator in a project of its own, too. */
export async function openBigQueryPlace(bigQuery: TestBigQuery): Promise<BigQueryPlace> {
  const { apiEndpoint } = bigQuery;
  const id = randomBytes(4).toString("hex");
  const project = apiEndpoint === null ? bigQuery.project : `test-${id}`;
  const noJson = `{"table": "person", "column": "_extra", "expected": "json"}`;
  const refusals: Readonly<Record<string, string>> = {
    22008: `{"table": "person", "column": "dob", "expected": "date"}`,
    // The emulator stores it.
    ...(apiEndpoint === null ? { 22003: noJson, 54001: noJson } : {}),
  };
  const names = { project, data: "person_data", ops: "person_data_ops" };
  const credentials = { credentialsFile: null, impersonate: null };
  const workFolder = join(inject("runFolder"), `work-${id}`);
  const client = openClient({ project, ...credentials, apiEndpoint });
  const session = openSession({ client, names, location: null, maximumBytesBilled: null });
  /** Tables of ours that may have rows. */
  const written = new Set<string>();
  const watching: Client = {
    ...client,
    send(request) {
      for (const name of writtenBy(JSON.stringify(request.body ?? ""))) written.add(name);
      return client.send(request);
    },
  };
  const open = () =>
    explainFailures(
      openBigQueryWarehouse({
        ...names,
        location: null,
        ...credentials,
        apiEndpoint,
        maximumBytesBilled: null,
        gathering: { maxRecords: 1, maxAgeMs: 0 },
        readErasureSecret: async () => null,
        foreign: keepForeignDatabases(openForeignDatabase),
        workFolder,
        description: "BigQuery",
        client: watching,
      }),
      (error) => explainFailure(error, names, null),
    );
  let warehouse = open();
  await warehouse.migrate();
  const postgres = await openPostgresPlace();
  const mirror = await openMirror(postgres.client, { session, folder: inject("runFolder"), written });
  return {
    warehouse: mirrored(() => warehouse, mirror),
    async reset() {
      await warehouse.close();
      warehouse = open();
    },
    session,
    mirror,
    workFolder,
    locksBySql: true,
    isSlow: true,
    sql: (text, params) => mirror.sql(text, params),
    digits: { before: apiEndpoint === null ? 38 : 20, after: apiEndpoint === null ? 38 : 18 },
    refusalOf: (sqlstate) => {
      const details = refusals[sqlstate];
      return details === undefined ? null : { details };
    },
    // No two transactions begin in the same microsecond.
    rowVersion: "_synced_at",
    tableNames: async () => (await tablesNamed(session, "")).toSorted(),
    rowsText: async (table) =>
      JSON.stringify(await session.rows(sql`SELECT * FROM ${sql.id(project, names.data, table)}`)),
    prefetch: () => mirror.prefetch(),
    async close() {
      await warehouse.close();
      await mirror.close();
      await postgres.close();
      for (const name of [names.data, names.ops, "crm"]) {
        await session.change(sql`DROP SCHEMA IF EXISTS ${sql.id(name)} CASCADE`);
      }
    },
  };
}

/** Names of tables that statements in a request change. */
function writtenBy(body: string): readonly string[] {
  const changes = body.matchAll(/(?:INSERT INTO|UPDATE|DELETE FROM|MERGE)\s+(?:`[^`]+`\.){0,2}`?(\w+)`?/gi);
  return [...changes].flatMap(([, name]) => name ?? []);
}

/** The warehouse, with a mirror that is up to date before and after each of its deeds. */
function mirrored(current: () => Warehouse, mirror: Mirror): Warehouse {
  return new Proxy(current(), {
    get(_, name) {
      const target = current();
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function" || name === "preparePerson") return member;
      return async (...args: readonly unknown[]): Promise<unknown> => {
        await mirror.flush();
        try {
          return await (Reflect.apply(member, target, args) as Promise<unknown>);
        } finally {
          mirror.forget();
        }
      };
    },
  });
}
