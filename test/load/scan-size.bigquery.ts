import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { type Client, openClient } from "../../src/load/bigquery/client.ts";
import { openBigQueryWarehouse } from "../../src/load/bigquery/warehouse.ts";
import { keepForeignDatabases } from "../../src/load/foreign-database.ts";
import { openForeignDatabase } from "../../src/load/open.ts";
import type { Warehouse } from "../../src/load/warehouse.ts";
import { bigQueryOfRun, type FreshDatasets, freshDatasets } from "../support/test-bigquery.ts";
import { openPostgresPlace } from "./postgres-place.ts";
import { enrichSpec, people, resolveSpec, validateSpec } from "./suite/people.ts";

const bigQuery = await bigQueryOfRun();

/** The emulator says 0 to every dry run; Google's service would say something like this. */
function sizing(client: Client, dryRuns: string[]): Client {
  return {
    ...client,
    async send<Answer>(request: Parameters<Client["send"]>[0]) {
      const answer = await client.send<Answer>(request);
      const text = JSON.stringify(request.body ?? "");
      if (!text.includes('"dryRun":true')) return answer;
      dryRuns.push(text);
      const { statistics } = answer as { readonly statistics?: object }; // what a dry run answers
      return { ...answer, statistics: { ...statistics, totalBytesProcessed: "1000" } };
    },
  };
}

describe.runIf(bigQuery)("the bytes that a selection scans", () => {
  let place: FreshDatasets;
  let warehouse: Warehouse;
  const dryRuns: string[] = [];
  beforeAll(async () => {
    if (!bigQuery) throw new Error("no BigQuery");
    place = await freshDatasets(bigQuery, { create: true });
    const { project, apiEndpoint, data, ops } = place;
    const credentials = { credentialsFile: null, impersonate: null };
    warehouse = openBigQueryWarehouse({
      project,
      data,
      ops,
      ...credentials,
      apiEndpoint,
      location: null,
      maximumBytesBilled: null,
      gathering: { maxRecords: 1, maxAgeMs: 0 },
      readErasureSecret: async () => null,
      foreign: keepForeignDatabases(openForeignDatabase),
      workFolder: join(inject("runFolder"), `work-${randomBytes(4).toString("hex")}`),
      description: "BigQuery",
      client: sizing(openClient({ project, ...credentials, apiEndpoint }), dryRuns),
    });
    await place.session.change(sql`CREATE TABLE people (id STRING, first_name STRING, last_name STRING, email STRING,
      phone STRING, updated_at TIMESTAMP)`);
  });
  afterAll(() => place.drop());

  const input = { ...people, relation: { table: ["people"] } };

  test("are those of the input's mapped columns and of the job's states, and those of the cursor", async () => {
    for (const spec of [enrichSpec({ input }), resolveSpec({ input })]) {
      expect(await warehouse.scannedBytes(spec)).toBe(1000);
    }
    const validated = validateSpec({ input: { ...input, fields: { emails: ["email"] } } });
    expect(await warehouse.scannedBytes(validated)).toBe(1000);
    await warehouse.migrate();
    dryRuns.length = 0;
    const withCursor = { ...input, cursor: { column: "updated_at", overlapMs: 0 } };
    expect(await warehouse.scannedBytes(enrichSpec({ input: withCursor }))).toBe(2000);
    expect(dryRuns.filter((text) => text.includes("lookup_state"))).toHaveLength(1);
    expect(dryRuns.filter((text) => text.includes("MAX("))).toHaveLength(1);
  });

  test("of a push are those of its query and of what is known of its members", async () => {
    await warehouse.migrate();
    const source = {
      ...people,
      key: ["service_pid"],
      relation: { sql: "SELECT id AS service_pid FROM people" },
      fields: {},
    };
    const plan = await warehouse.planPush({ job: "push", segmentId: null, source, again: "now" });
    expect(plan).toMatchObject({ read: 0, bytesToScan: 2000 });
  });

  test("are those of the states alone where the input is in Postgres, and none for a warehouse there", async () => {
    const there = await openPostgresPlace();
    await there.sql("CREATE SCHEMA crm; CREATE TABLE crm.people (id text, first_name text)");
    const connection = { type: "postgres", name: "crm", url: there.url } as const;
    const spec = enrichSpec({ input: { ...people, fields: { first_name: ["first_name"] } } });
    await warehouse.migrate();
    expect(await warehouse.scannedBytes({ ...spec, input: { ...spec.input, connection } })).toBe(1000);
    expect(await there.warehouse.scannedBytes(spec)).toBeNull();
    await there.close();
  });
});
