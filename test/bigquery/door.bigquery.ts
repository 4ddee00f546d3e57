import { randomUUID } from "node:crypto";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { answerOf } from "../../src/bigquery/client.ts";
import { finishedJob } from "../../src/bigquery/session.ts";
import { type FreshDatasets, freshDatasets } from "../support/bigquery/test-bigquery.ts";

let place: FreshDatasets;

beforeAll(async () => {
  place = await freshDatasets();
  await place.create(place.data);
  await run("CREATE TABLE pairs (name STRING, n INT64)");
});
afterAll(() => place.drop());

const run = (text: string) => place.session.rows({ text });

test.each([
  ["SELECT 1 AS at", "Syntax error: Unexpected keyword AT"],
  ["SELECT 1 AS hash", "Syntax error: Unexpected keyword HASH"],
  ["SELECT 1;;", 'Syntax error: Unexpected ";"'],
  [
    "SELECT name FROM pairs UNION ALL SELECT x FROM (SELECT NULL AS x)",
    "Column 1 in UNION ALL has incompatible types: STRING, INT64",
  ],
  ["SELECT nothing FROM pairs", "Unrecognized name: nothing"],
  ["INSERT INTO pairs (name) SELECT 1", "Query column 1 has type INT64 which cannot be inserted into column"],
  [
    "BEGIN TRANSACTION; DELETE FROM pairs WHERE n = 'a'; COMMIT TRANSACTION",
    "No matching signature for operator =",
  ],
  ["DECLARE x INT64 DEFAULT 'a'; SELECT x", "cannot be coerced"],
])("%s is refused as by Google's analyzer", async (text, message) => {
  await expect(run(text)).rejects.toMatchObject({
    code: "invalidQuery",
    message: expect.stringContaining(message),
  });
});

test("a statement with a parameter of another type is refused", async () => {
  const text = "SELECT name FROM pairs WHERE n = @n";
  await expect(place.session.rows({ text, parameters: { n: "a" } })).rejects.toMatchObject({
    code: "invalidQuery",
  });
  expect(await place.session.rows({ text, parameters: { n: 1 } })).toEqual([]);
});

test("a job is found in its own location only", async () => {
  const jobId = randomUUID();
  const { jobReference } = await place.client.send<{ jobReference: { jobId: string; location: string } }>({
    method: "POST",
    path: "/jobs",
    body: { jobReference: { jobId }, configuration: { query: { query: "SELECT 1", useLegacySql: false } } },
  });
  expect(jobReference.location).toBe("europe-west3");
  await expect(finishedJob(place.client, { jobId })).rejects.toMatchObject({ code: "notFound" });
  await expect(finishedJob(place.client, { jobId, location: "US" })).rejects.toMatchObject({ status: 404 });
  await finishedJob(place.client, jobReference);
});

test("an UPDATE that finds two source rows for a target row is refused", async () => {
  await run("INSERT INTO pairs (name, n) VALUES ('once', 1), ('twice', 1)");
  const update = (name: string) =>
    run(`UPDATE pairs AS t SET n = s.n FROM (SELECT '${name}' AS name, x AS n FROM UNNEST([2, 3]) AS x) AS s
      WHERE s.name = t.name AND (s.n = 2 OR t.name = 'twice')`);
  await expect(update("twice")).rejects.toMatchObject({
    message: expect.stringContaining("at most one source row"),
  });
  await update("once");
  expect(await run("SELECT n FROM pairs WHERE name IN ('once', 'twice') ORDER BY name")).toEqual([
    { n: 2 },
    { n: 1 },
  ]);
});

test("requests above 10 MB and variables above 1 MB are refused", async () => {
  const parameters = { text: "x".repeat(10_500_000) };
  await expect(place.session.rows({ text: "SELECT LENGTH(@text)", parameters })).rejects.toMatchObject({
    status: 413,
  });
  await expect(run("DECLARE x STRING DEFAULT REPEAT('x', 1100000); SELECT LENGTH(x)")).rejects.toMatchObject({
    code: "resourcesExceeded",
  });
});

async function load(body: Uint8Array<ArrayBuffer>): Promise<void> {
  const jobId = randomUUID();
  const configuration = {
    load: {
      destinationTable: { projectId: place.project, datasetId: place.data, tableId: "loaded" },
      sourceFormat: "NEWLINE_DELIMITED_JSON",
      schema: { fields: [{ name: "name", type: "STRING" }] },
    },
  };
  const job = { jobReference: { projectId: place.project, jobId }, configuration };
  const started = await place.client.fetch(`${place.client.uploadUrl}?uploadType=resumable`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(job),
  });
  const address = started.headers.get("location") ?? "";
  const half = Math.floor(body.length / 2);
  const put = (from: number, to: number) =>
    place.client.fetch(address, {
      method: "PUT",
      headers: { "content-range": `bytes ${from}-${to - 1}/${body.length}` },
      body: body.subarray(from, to),
    });
  expect((await put(0, half)).status).toBe(308);
  await answerOf(await put(half, body.length));
  await finishedJob(place.client, { jobId, location: "europe-west3" });
}

test("a compressed file is loaded, and one with an unknown field refused", async () => {
  await load(gzipSync('{"name":"é"}\n{"name":null}\n'));
  expect(await run("SELECT name FROM loaded ORDER BY name")).toEqual([{ name: null }, { name: "é" }]);
  await expect(load(gzipSync('{"name":"b","other":1}\n'))).rejects.toMatchObject({
    code: "invalid",
    message: expect.stringContaining("No such field: other"),
  });
  expect(await run("SELECT COUNT(*) AS n FROM loaded")).toEqual([{ n: 2 }]);
});
