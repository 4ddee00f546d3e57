import { expect, test } from "vitest";
import { configOf, jobOf, repeats, startWorld } from "../world.ts";

const JOBS = "\n  enrich_customers: { type: enrich, input: customers }\n";

test("a resend that is retried under its run id buys each record once", async () => {
  const world = await startWorld({ rows: 60, config: configOf(JOBS) });
  await world.run();
  const resend = { resend: true, yes: true, runId: "task-7" };
  const first = jobOf(await world.run(resend), "enrich_customers");
  expect(first.records_sent).toBeGreaterThan(40);
  const bought = await repeats(world);
  const retried = jobOf(await world.run(resend), "enrich_customers");
  expect([retried.status, retried.records_sent]).toEqual(["succeeded", 0]);
  expect(await repeats(world)).toEqual(bought);

  const other = jobOf(await world.run({ ...resend, runId: "task-8" }), "enrich_customers");
  expect(other.records_sent).toBe(first.records_sent);
});
