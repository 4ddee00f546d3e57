import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { describe, expect, test } from "vitest";
import { type Sent, startService } from "./support/answering-service.ts";
import { runJson } from "./support/cli.ts";
import { runMeasured } from "./support/measured-cli.ts";
import { partOf } from "../support/test-size.ts";
import { makeSetting, type Setting } from "./support/setting.ts";

const JOBS = "jobs:\n  enrich_customers: { type: enrich, input: customers }\n";

/** More fields of a record's result, by its position in the call. */
type More = (position: number) => string;

/** Text of an answer with a match for each record, piece by piece. */
function* textOf(records: readonly Sent[], more: More): Generator<string> {
  yield '{"api_request_id":"r1","results":[';
  for (const [i, { record_id: id }] of records.entries()) {
    yield `${i === 0 ? "" : ","}{"record_id":"${id}","is_match":true,"service_pid":"p-${id}","match_score":90,${more(i)}}`;
  }
  yield '],"request_completed_at":"2026-11-20T01:02:03.123456Z"}';
}

async function start(rows: number, more: More, isGzip = true) {
  const service = await startService((records, response) => {
    response.writeHead(200, isGzip ? { "content-encoding": "gzip" } : {});
    const body = Readable.from(textOf(records, more));
    const sending = isGzip ? pipeline(body, createGzip({ level: 1 }), response) : pipeline(body, response);
    sending.catch(() => {});
  });
  return { setting: await makeSetting({ rows, baseUrl: service.url, jobs: JOBS }), service };
}

/** Loaded people, ledger, and rejects. */
async function outcomeOf({ query }: Setting) {
  const [people] = await query(
    "SELECT count(*)::int AS people, count(*) FILTER (WHERE _extra ? 'notes')::int AS noted FROM person_data.person",
  );
  const calls = await query(
    "SELECT records_matched::int, possibly_billed, http_status::int FROM person_data_ops.api_call WHERE endpoint = 'POST /v2/enrich'",
  );
  const rejects = await query(
    "SELECT code, message, details, count(*)::int FROM person_data.reject WHERE resolved_at IS NULL GROUP BY 1, 2, 3 ORDER BY 1",
  );
  return { ...people, calls, rejects };
}

const billedOnce = (records: number) => [
  { records_matched: records, possibly_billed: false, http_status: 200 },
];
const notes = (bytes: number) => `"notes":"${"A text of some length. ".repeat(Math.ceil(bytes / 23))}"`;

describe("an answer of", () => {
  const sizes = [
    { megabytes: 40, rows: 50, isGzip: true },
    { megabytes: 40, rows: 50, isGzip: false },
    { megabytes: 320, rows: 400, isGzip: true },
    { megabytes: 320, rows: 400, isGzip: false },
  ];
  test.each(partOf(sizes, 2))(
    "$megabytes MB (gzip: $isGzip) is loaded whole, from one call, in 256 MB of memory",
    async ({ megabytes, rows, isGzip }) => {
      const { setting, service } = await start(rows, () => notes((megabytes * 1024 * 1024) / rows), isGzip);
      const { code, stdout, peakMebibytes } = await runMeasured(["--json", "run", "--yes"], setting);
      process.stdout.write(`${megabytes} MB, gzip ${isGzip}: ${Math.round(peakMebibytes)} MB resident\n`);
      expect([code, JSON.parse(stdout).status]).toEqual([0, "succeeded"]);
      // Equal rows are sent once.
      const { calls, records } = service;
      expect([calls, records > 0.9 * rows]).toEqual([1, true]);
      expect(await outcomeOf(setting)).toEqual({
        people: records,
        noted: records,
        calls: billedOnce(records),
        rejects: [],
      });
      expect(peakMebibytes).toBeLessThan(256);
      const next = await runJson(["run", "--yes"], setting);
      expect([next.document.status, service.calls]).toEqual(["succeeded", 1]);
    },
  );
});

/** A name that no other field has. */
const fields = (count: number) =>
  Array.from({ length: count }, (_, n) => `"field_number_${n}":${n}`).join(",");
const deep = (levels: number) => `${"[".repeat(levels)}1.2345678901234567890123${"]".repeat(levels)}`;

test.each([
  ["of 40 MB", notes(40 * 1024 * 1024), 256],
  ["with 600,000 fields in 13 MB", fields(600_000), 320],
  ["with a number of many digits, 20,000 levels deep", `"deep":${deep(20_000)}`, 256],
] as const)(
  "a result %s is rejected, and the others of its answer are loaded: nothing is sent again",
  async (_, odd, mostMebibytes) => {
    const { setting, service } = await start(50, (i) => (i === 20 ? odd : notes(10_000)));
    const { code, peakMebibytes } = await runMeasured(["--json", "run", "--yes"], setting);
    expect([code, service.calls]).toEqual([0, 1]);
    const message =
      "POST /v2/enrich: the result of this record is too large to load. The other results of the response are loaded.";
    expect(await outcomeOf(setting)).toEqual({
      people: 49,
      noted: 49,
      calls: billedOnce(50),
      rejects: [{ code: "answer_too_large", message, details: null, count: 1 }],
    });
    expect(peakMebibytes).toBeLessThan(mostMebibytes);
  },
);

test.each([
  ["100,000 fields", fields(100_000)],
  ["200,000 levels", `"deep":${"[".repeat(200_000)}${"]".repeat(200_000)}`],
])("a result with %s is loaded with all others", async (_, odd) => {
  const { setting, service } = await start(50, (i) => (i === 20 ? `${odd},${notes(10)}` : notes(10)));
  const { code, peakMebibytes } = await runMeasured(["--json", "run", "--yes"], setting);
  expect([code, service.calls]).toEqual([0, 1]);
  const outcome = await outcomeOf(setting);
  expect(outcome).toMatchObject({ people: 50, calls: billedOnce(50), rejects: [] });
  expect(peakMebibytes).toBeLessThan(256);
});

/** A setting in which the program is killed at a step. */
const crashAt = (setting: Setting, point: string) => ({
  ...setting,
  env: { ...setting.env, PERSON_ETL_CRASH_AT: point },
});

describe("a process that was killed while it read a result of a large answer", () => {
  const rows = 50;
  async function startKilled() {
    const { setting, service } = await start(rows, () => notes(800_000));
    // All results are read twice; the one at position 29 is the 30th of the second time.
    const { code } = await runMeasured(["run", "--yes"], crashAt(setting, `before_result:${rows + 30}`));
    expect([code, service.calls]).toEqual([null, 1]);
    return { setting, service };
  }

  test("costs nothing: the next run loads all results, that one last", async () => {
    const { setting, service } = await startKilled();
    const { code } = await runMeasured(["run", "--yes"], setting);
    expect([code, service.calls]).toEqual([0, 1]);
    expect(await outcomeOf(setting)).toEqual({
      people: rows,
      noted: rows,
      calls: billedOnce(rows),
      rejects: [],
    });
  });

  test("and whose next run ended there again costs that record only: it is rejected", async () => {
    const { setting, service } = await startKilled();
    const again = await runMeasured(["run", "--yes"], crashAt(setting, `before_result:${2 * rows}`));
    expect(again.code).toBe(null);
    const { code } = await runMeasured(["run", "--yes"], setting);
    expect([code, service.calls]).toEqual([0, 1]);
    const message = "POST /v2/enrich: the process ended 2 times while it read the result of this record.";
    expect(await outcomeOf(setting)).toEqual({
      people: rows - 1,
      noted: rows - 1,
      calls: billedOnce(rows),
      rejects: [{ code: "answer_unloadable", message, details: null, count: 1 }],
    });
  });
});
