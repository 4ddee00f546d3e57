import { createGzip, gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { type Sent, startService } from "./support/answering-service.ts";
import { runJson } from "./support/cli.ts";
import { runMeasured } from "./support/measured-cli.ts";
import { partOf } from "../support/test-size.ts";
import { makeSetting } from "./support/setting.ts";

const MB = 1024 * 1024;
/** Memory limit of deploy/. */
const GRANTED_MB = 512;
const JOBS = "jobs:\n  enrich_customers: { type: enrich, input: customers }\n";

/** Compresses a text without holding it in memory. */
async function bomb(head: string, unit: string, bytes: number, tail: string): Promise<Buffer> {
  const packing = createGzip({ level: 1 });
  const pieces: Buffer[] = [];
  const packed = (async () => {
    for await (const piece of packing as AsyncIterable<Buffer>) pieces.push(piece);
  })();
  packing.write(head);
  const block = unit.repeat(Math.ceil(MB / unit.length));
  for (let written = 0; written < bytes; written += block.length) {
    if (!packing.write(block)) await new Promise((resolve) => packing.once("drain", resolve));
  }
  packing.end(tail);
  await packed;
  return Buffer.concat(pieces);
}

/** An answer with a match for each record. */
function answer(records: readonly Sent[], more: (index: number) => object): string {
  const results = records.map(({ record_id }, index) => ({
    record_id,
    is_match: true,
    service_pid: `p-${record_id}`,
    match_score: 90,
    validation_errors: null,
    ...more(index),
  }));
  return JSON.stringify({ api_request_id: "x", results });
}

interface Shape {
  readonly status?: number;
  readonly isPlain?: boolean;
  readonly body: (records: readonly Sent[]) => Buffer | Promise<Buffer>;
}

const shapes: Readonly<Record<string, Shape>> = {
  "100 MB of blanks": { body: () => bomb('{"results":[', " ".repeat(16), 100 * MB, "]}") },
  "blanks in a member that another one hides": {
    body: async () =>
      Buffer.concat([await bomb('{"results":[', " ".repeat(16), 80 * MB, "]}"), gzipSync("")]),
  },
  "a million results for records that were not sent": {
    body: async () =>
      Buffer.concat([await bomb('{"results":[', '{"a":"0123456789"},', 30 * MB, "{}]}"), gzipSync("")]),
  },
  "60 MB of braces": {
    isPlain: true,
    body: () => Buffer.from(`{"results":[${"{},".repeat(20 * MB)}{}]}`),
  },
  "millions of numbers after long results": {
    isPlain: true,
    body: () => {
      const long = `{"a":"${"x".repeat(50_000)}"}`;
      return Buffer.from(`{"results":[${long},${long}${",1".repeat(3 * MB)}]}`);
    },
  },
  "an error with 240 MB of details": {
    status: 500,
    body: () => bomb('{"details":[', "{},", 240 * MB, "{}]}"),
  },
  "one record with a huge list": {
    body: (records) =>
      gzipSync(
        answer(records, (i) => (i === 0 ? { phones: Array.from({ length: 900_000 }, () => ({})) } : {})),
      ),
  },
};

/** Starts a service with answers of this shape until it recovers. */
async function startShaped(shape: Shape) {
  const state = { isWell: false };
  let packed: Promise<Buffer> | Buffer | null = null;
  const { url } = await startService(async (records, response) => {
    packed ??= shape.body(records);
    const body = state.isWell ? gzipSync(answer(records, () => ({}))) : await packed;
    const isGzip = state.isWell || shape.isPlain !== true;
    response.writeHead(
      state.isWell ? 200 : (shape.status ?? 200),
      isGzip ? { "content-encoding": "gzip" } : {},
    );
    response.end(body);
  });
  return { state, url };
}

test.for(partOf(Object.entries(shapes), 3))(
  "%s at concurrency 64 ends as an error within the memory that deploy/ grants",
  async ([, shape]) => {
    const { state, url } = await startShaped(shape);
    const service = "  concurrency: 64\n";
    const setting = await makeSetting({ rows: 4000, baseUrl: url, service, jobs: JOBS });
    const { code, stdout, peakMebibytes } = await runMeasured(["--json", "run", "--yes"], setting);
    const { jobs } = JSON.parse(stdout);
    expect([code, jobs[0].status, jobs[0].error.code]).toEqual([1, "failed", "service_failing"]);
    expect(peakMebibytes).toBeGreaterThan(50);
    expect(peakMebibytes).toBeLessThan(GRANTED_MB);

    state.isWell = true;
    const next = await runJson(["run", "--yes"], setting);
    expect([next.code, next.document.status]).toEqual([0, "succeeded"]);
  },
);
