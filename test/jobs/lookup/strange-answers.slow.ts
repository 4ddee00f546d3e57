import { expect, test } from "vitest";
import { configOf, jobOf, startWorld, unaccountedRows } from "../world.ts";
import { startRecordingProxy } from "./recording-proxy.ts";

const config = configOf(`
  resolve_customers: { type: resolve, input: customers }
  enrich_customers: { type: enrich, input: customers }`);

test("a response to another request answers nothing, and what it left is sent once more", async () => {
  const world = await startWorld({ rows: 60, config });
  let first: string | null = null;
  let calls = 0;
  const proxy = await startRecordingProxy(world.serviceUrl, (path, body) => {
    if (!path.endsWith("/enrich")) return body;
    calls += 1;
    first ??= body.replaceAll(/"record_id":"/gu, '"record_id":"of-last-night-');
    return calls === 1 ? first : body;
  });
  world.serviceUrl = proxy.url;
  const job = jobOf(await world.run({ jobs: ["enrich_customers"] }), "enrich_customers");
  expect([job.status, job.records_rejected, job.records_remaining, unaccountedRows(job)]).toEqual([
    "succeeded",
    expect.any(Number),
    0,
    0,
  ]);
  expect(calls).toBe(2);
  expect(job.possibly_billed_twice).toBe(job.records_sent);
});
