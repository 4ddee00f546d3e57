import type { RequestInit } from "undici";
import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, inject, test, vi } from "vitest";
import { openClient } from "../../src/bigquery/client.ts";
import { listTables } from "../../src/publish/bigquery/datasets.ts";
import { uploadFile } from "../../src/publish/bigquery/stage.ts";
import { catalogOf, type Catalog, type Destination, type Position } from "../../src/publish/destination.ts";
import { openBigQueryDestination } from "../../src/publish/bigquery/destination.ts";
import { batchAfter, type FileRow, publishRows, stageAll } from "../publish/staged-files.ts";
import { openRequestDoor, type RequestDoor } from "../support/bigquery/request-door.ts";
import { type BigQueryDestinationContext, openBigQueryContext } from "./bigquery-context.ts";

const full = catalogOf(null);
/** Two tables are sufficient. */
const catalog: Catalog = {
  tables: full.tables.filter(({ name }) => ["person", "person_email"].includes(name)),
  views: [],
  dropped: [],
};
const AT = "2026-11-21T04:00:00.000001+00:00";
const personRow = (pid: string, fullName: string): FileRow => ({
  service_pid: pid,
  full_name: fullName,
  _record_synced_at: AT,
  _synced_at: AT,
  _run_id: "r1",
});
const changeOf = (fullName: string) => [
  { table: "person", keys: [{ service_pid: "p1" }], rows: [personRow("p1", fullName)] },
];

let context: BigQueryDestinationContext;
let door: RequestDoor;
let destination: Destination;
let last: Position | null = null;

beforeAll(async () => {
  context = await openBigQueryContext();
  await context.destination.migrate(catalog);
});
afterAll(() => context.close());
beforeEach(async () => {
  door = await openRequestDoor(context.target.apiEndpoint ?? "");
  destination = openBigQueryDestination({ ...context.target, apiEndpoint: door.url });
});

const names = async () =>
  (await context.datasets.session.rows<{ full_name: string }>({ text: "SELECT full_name FROM person" })).map(
    (row) => row.full_name,
  );

/** Publishes a batch; returns its outcome and the table's rows. */
async function publish(fullName: string): Promise<readonly [string, readonly string[]]> {
  const batch = batchAfter(last);
  const outcome = await publishRows(destination, catalog, batch, changeOf(fullName));
  last = batch;
  return [outcome, await names()];
}

test.each([
  ["a load that fails in BigQuery's backend", /^person_etl_load_.*_rows_/, "backendError"],
  ["a load refused for its rate", /^person_etl_load_.*_keys_/, "jobRateLimitExceeded"],
  ["a commit that fails in BigQuery's backend", /^person_etl_commit_/, "jobBackendError"],
])("%s is retried under another id", async (_, jobs, reason) => {
  door.failJobs({ jobs, times: 2, reason, message: "try again" });
  expect(await publish(reason)).toEqual(["committed", [reason]]);
  expect(door.failed.map((id) => id.slice(id.lastIndexOf("_")))).toEqual(["_1", "_2"]);
});

test("a commit that conflicts with the user's DML is retried", async () => {
  door.failJobs({
    jobs: /^person_etl_commit_/,
    times: 2,
    reason: "invalidQuery",
    message:
      "Transaction is aborted due to concurrent update against table test:d.person. Transaction ID: 6f1e",
  });
  expect(await publish("after the others")).toEqual(["committed", ["after the others"]]);
  expect(door.failed).toHaveLength(2);
});

test("a commit that always conflicts stops with the reason", async () => {
  const message = "Could not serialize access to table test:d.person due to concurrent update";
  door.failJobs({ jobs: /^person_etl_commit_/, times: 100, reason: "invalidQuery", message });
  const error = await publishRows(destination, catalog, batchAfter(last), changeOf("never")).catch((e) => e);
  expect(destination.explain(error)).toMatchObject({ name: "StopRunError", code: "destination_busy" });
  expect(await names()).toEqual(["after the others"]);
}, 120_000);

test("a data error isn't retried, and its message isn't shown", async () => {
  const batch = batchAfter(last);
  const wrong = [
    { table: "person", keys: [{ service_pid: "p1" }], rows: [{ ...personRow("p1", "x"), dob: "secret" }] },
  ];
  const error = await stageAll(destination, catalog, batch, wrong).catch((e: unknown) => e);
  expect(error).toMatchObject({ code: "invalid" });
  expect(door.seen.filter((text) => text.startsWith("POST /upload"))).toHaveLength(2);
});

test.each(["before", "during", "after"] as const)(
  "a commit whose connection breaks %s the request is done once",
  async (moment) => {
    door.break(/^POST \/bigquery\/v2\/projects\/test\/jobs/, moment);
    expect(await publish(`broken ${moment}`)).toEqual(["committed", [`broken ${moment}`]]);
    expect(await destination.position()).toEqual({ number: last?.number, id: last?.id });
  },
);

test.each(["before", "after"] as const)(
  "a load whose connection breaks %s the last bytes is done once",
  async (moment) => {
    door.break(/^PUT \/upload/, moment);
    expect(await publish(`bytes ${moment}`)).toEqual(["committed", [`bytes ${moment}`]]);
  },
);

test("no staging table outlives its batch, committed or not", async () => {
  const stale = { ...batchAfter(last), follows: "another history" };
  expect(await publishRows(destination, catalog, stale, changeOf("stale"))).toBe("refused");
  await stageAll(destination, catalog, batchAfter(last), changeOf("died before its commit"));
  expect(await publish("the next one")).toEqual(["committed", ["the next one"]]);
  const { data, client } = context.datasets;
  expect((await listTables(client, data)).toSorted()).toEqual(["person", "person_email"]);
});

test("publication waits for jobs that take seconds", async () => {
  door.slowDown(1_500);
  expect(await publish("slow")).toEqual(["committed", ["slow"]]);
});

test("a broken upload of several chunks resumes where it stopped", async () => {
  const { client, data } = context.datasets;
  const file = join(inject("runFolder"), `${data}.ndjson`);
  const text = randomBytes(6 * 1024 * 1024).toString("base64");
  const lines = Array.from({ length: 20 }, (_, i) =>
    JSON.stringify({ line: i, text: text.slice(i * 1e5, (i + 10) * 1e5) }),
  );
  await writeFile(file, lines.join("\n"));
  const through = openClient({ ...context.target, apiEndpoint: door.url });
  const jobId = `upload_${data}`;
  const configuration = {
    load: {
      destinationTable: { projectId: client.project, datasetId: data, tableId: "uploaded" },
      sourceFormat: "NEWLINE_DELIMITED_JSON",
      schema: {
        fields: [
          { name: "line", type: "INT64" },
          { name: "text", type: "STRING" },
        ],
      },
    },
  };
  let chunks = 0;
  const broken = {
    ...through,
    async fetch(url: string, init: RequestInit) {
      chunks += init.body instanceof Uint8Array ? 1 : 0;
      if (chunks === 2 && init.body instanceof Uint8Array) door.break(/^PUT/, "before");
      return through.fetch(url, init);
    },
  };
  const reference = await uploadFile(
    broken,
    { jobReference: { projectId: client.project, jobId }, configuration },
    file,
  );
  expect(reference).toMatchObject({ jobId, location: "europe-west3" });
  expect(chunks).toBe(6);
  // The job may still be running.
  const [row] = await vi.waitFor(
    () =>
      context.datasets.session.rows({
        text: "SELECT COUNT(*) AS n, SUM(line) AS total, MIN(LENGTH(text)) AS shortest FROM uploaded",
      }),
    { timeout: 30_000, interval: 500 },
  );
  expect(row).toEqual({ n: 20, total: 190, shortest: 1e6 });
});
