import type { RequestInit } from "undici";
import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, inject, onTestFinished, test, vi } from "vitest";
import { openClient } from "../../src/bigquery/client.ts";
import { listTables } from "../../src/publish/bigquery/datasets.ts";
import { uploadFile } from "../../src/publish/bigquery/stage.ts";
import { catalogOf, type Destination, type Position } from "../../src/publish/destination.ts";
import { type BigQueryTarget, openBigQueryDestination } from "../../src/publish/bigquery/destination.ts";
import { batchAfter, type FileRow, publishRows, stageAll } from "../publish/staged-files.ts";
import { type FreshDatasets, freshDatasets } from "../support/bigquery/test-bigquery.ts";
import { openRequestDoor, type RequestDoor } from "../support/bigquery/request-door.ts";
import { type BigQueryDestinationContext, openBigQueryContext } from "./bigquery-context.ts";

/** Two tables are sufficient. */
const catalog = { ...catalogOf(["person", "person_email"]), dropped: [] };
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
  ["a load that fails in BigQuery's backend", /^person_etl_load_.*-rows_/, "backendError"],
  ["a load refused for its rate", /^person_etl_load_.*-keys_/, "jobRateLimitExceeded"],
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

/** A destination behind the door with other settings, in datasets of its own. */
async function openOther(settings: (datasets: FreshDatasets) => Partial<BigQueryTarget>) {
  const datasets = await freshDatasets();
  onTestFinished(() => datasets.drop());
  const own = { dataset: datasets.data, opsDataset: datasets.ops, apiEndpoint: door.url };
  const other = openBigQueryDestination({ ...context.target, ...own, ...settings(datasets) });
  await other.migrate(catalog);
  const rows = () => datasets.session.rows({ text: "SELECT full_name FROM person" });
  return { datasets, other, rows };
}

test("staging tables are in their own dataset, and only this destination's are dropped", async () => {
  const { datasets, other, rows } = await openOther(({ data }) => ({ stagingDataset: `${data}_staging` }));
  const { client, data } = datasets;
  const staging = `${data}_staging`;
  onTestFinished(async () => {
    await client.send({ method: "DELETE", path: `/datasets/${staging}`, query: { deleteContents: true } });
  });
  const foreign = [
    `_stage-${data}_1-1-a1-person-keys`,
    "_stage-elsewhere-1-a1-person-rows",
    `_stage-${data}-1`,
    "_stage_1",
  ];
  for (const tableId of foreign) {
    const tableReference = { projectId: client.project, datasetId: staging, tableId };
    const body = { tableReference, schema: { fields: [{ name: "a", type: "STRING" }] } };
    await client.send({ method: "POST", path: `/datasets/${staging}/tables`, body });
  }
  const first = batchAfter(null);
  await stageAll(other, catalog, first, changeOf("died before its commit"));
  expect(await listTables(client, data)).toHaveLength(2);
  expect(await publishRows(other, catalog, { ...first, attempt: "second1" }, changeOf("Ada"))).toBe(
    "committed",
  );
  expect(await rows()).toEqual([{ full_name: "Ada" }]);
  expect((await listTables(client, staging)).toSorted()).toEqual(foreign.toSorted());
});

test("jobs run in the project that pays, with its labels", async () => {
  const { other, rows } = await openOther(() => ({
    billingProject: "payer",
    labels: { "cost-center": "crm", application: "mine" },
  }));
  const batch = batchAfter(null);
  expect(await publishRows(other, catalog, batch, changeOf("Ada"))).toBe("committed");
  expect(await rows()).toEqual([{ full_name: "Ada" }]);
  expect(await other.position()).toEqual({ number: 1, id: batch.id });
  const paths = door.seen.map((text) => text.replace(/\?.*/, ""));
  const projectsOf = (kind: string) => [
    ...new Set(paths.filter((path) => path.includes(kind)).map((path) => /projects\/(\w+)/.exec(path)?.[1])),
  ];
  expect(projectsOf("/jobs")).toEqual(["payer"]);
  expect(projectsOf("/queries")).toEqual(["payer"]);
  expect(projectsOf("/datasets")).toEqual(["test"]);
  const commit = paths
    .find((path) => path.includes("/jobs/person_etl_commit_"))
    ?.split("/")
    .at(-1);
  const job = await openClient({ ...context.target, project: "payer" }).send<object>({
    method: "GET",
    path: `/jobs/${commit}`,
    query: { location: "europe-west3" },
  });
  expect(job).toMatchObject({
    configuration: { labels: { "cost-center": "crm", application: "person-etl" } },
  });
});

test("a batch that would bill more than the limit changes nothing, and is applied once the limit is raised", async () => {
  const { datasets, other, rows } = await openOther(() => ({ maximumBytesBilled: 40 * 1024 * 1024 }));
  const batch = batchAfter(null);
  // Each of its statements bills at least 10 MB per table.
  const error = await publishRows(other, catalog, batch, changeOf("Ada")).catch((e: unknown) => e);
  expect(other.explain(error)).toMatchObject({
    name: "FixConfigurationError",
    code: "publication_over_limit",
    message:
      "publish.analytics.maximum_bytes_billed: the next batch would bill 50 MB, more than its limit of 40 MB. " +
      "Nothing of it was changed; raise the limit, or publish everything again by --full, which bills only the rows; the changes stay queued.",
  });
  expect([await rows(), await other.position()]).toEqual([[], null]);
  const tables = await listTables(openClient(context.target), datasets.data);
  expect(tables.filter((name) => name.startsWith("_stage"))).toEqual([]);
  const own = { dataset: datasets.data, opsDataset: datasets.ops };
  const raised = openBigQueryDestination({ ...context.target, ...own, maximumBytesBilled: 50 * 1024 * 1024 });
  await raised.migrate(catalog);
  expect(await publishRows(raised, catalog, { ...batch, attempt: "again1" }, changeOf("Ada"))).toBe(
    "committed",
  );
  expect(await rows()).toEqual([{ full_name: "Ada" }]);
});

test("a stop ends the waiting for jobs at once", async () => {
  const stop = new AbortController();
  const { other } = await openOther(() => ({ signal: stop.signal }));
  door.failJobs({ jobs: /^person_etl_commit_/, times: 100, reason: "jobBackendError", message: "again" });
  const publishing = publishRows(other, catalog, batchAfter(null), changeOf("Ada")).catch((e: unknown) => e);
  await expect.poll(() => door.failed.length, { timeout: 60_000 }).toBeGreaterThan(2);
  const reason = new Error("stopped");
  stop.abort(reason);
  const startedAtMs = performance.now();
  expect(await publishing).toBe(reason);
  expect(performance.now() - startedAtMs).toBeLessThan(2_000);
});
