import { expect, test } from "vitest";
import { configOf, jobOf, startWorld, unaccountedRows } from "../world.ts";
import { startRecordingProxy } from "./recording-proxy.ts";

const config = configOf(`
  resolve_customers: { type: resolve, input: customers }
  enrich_customers: { type: enrich, input: customers }`);

interface Envelope {
  readonly results: readonly Readonly<Record<string, unknown>>[];
}

test.each([null, "", "  ", 17])(
  "a match whose PID is %j rejects its record, and others of the same answer are loaded",
  async (pid) => {
    const world = await startWorld({ rows: 60, config });
    let changed = 0;
    const proxy = await startRecordingProxy(world.serviceUrl, (path, body) => {
      if (!path.endsWith("/resolve") && !path.endsWith("/enrich")) return body;
      const { results, ...envelope } = JSON.parse(body) as Envelope;
      const strange = results.map((result, i) => {
        if (result["is_match"] !== true || i % 2 === 1) return result;
        changed += 1;
        return { ...result, service_pid: pid };
      });
      return JSON.stringify({ ...envelope, results: strange });
    });
    world.serviceUrl = proxy.url;
    const { jobs } = await world.run();
    expect(jobs.map((job) => [job.status, unaccountedRows(job), job.records_remaining])).toEqual([
      ["succeeded", 0, 0],
      ["succeeded", 0, 0],
    ]);
    expect(changed).toBeGreaterThan(10);
    expect(
      await world.rows(
        "SELECT code, stage, count(*)::int AS rows FROM person_data.reject GROUP BY 1, 2 ORDER BY 1",
      ),
    ).toContainEqual({ code: "no_pid", stage: "answer", rows: String(changed) });
    expect(Number(await world.value("SELECT count(*) FROM person_data.person"))).toBeGreaterThan(5);
    expect(
      await world.value("SELECT count(*) FROM person_data.resolution WHERE is_match AND service_pid IS NULL"),
    ).toBe("0");
    const again = await world.run();
    expect(again.jobs.map((job) => job.records_sent)).toEqual([0, 0]);
  },
);

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
