import { expect, test } from "vitest";
import { readStatus } from "../../src/jobs/report/status.ts";
import { createMetrics } from "../../src/operate/metrics.ts";
import { configOf, startWorld } from "../jobs/world.ts";

/** Names and labels, without values. */
const series = (lines: readonly string[]) => lines.map((line) => line.replace(/ \S+$/, "")).toSorted();

test("counters of a job are 0 before its first run, so that increase() counts this run", async () => {
  const jobs =
    "\n  enrich_customers: { type: enrich, input: customers }\n  push: { type: segment_push, name: VIP, sql: select service_pid from person_data.identity_link, after: [enrich_customers] }\n  off: { type: search_usage, enabled: false }";
  const world = await startWorld({
    rows: 20,
    config: configOf(jobs, "prices: { currency: USD, enrich: 0.10 }"),
  });
  const metrics = createMetrics("0");
  const totals = async () => {
    const { text } = await metrics.render(await readStatus(await world.services()));
    return text.split("\n").filter((line) => /^person_etl_(?!attempts)\w+_total\{/.test(line));
  };
  const before = await totals();
  expect(before.every((line) => line.endsWith("} 0"))).toBe(true);
  expect(series(before)).toContain(
    'person_etl_runs_total{job="enrich_customers",type="enrich",status="failed"}',
  );
  expect(before.join("\n")).not.toContain('"off"');

  const report = await world.run();
  const added = report.jobs.find(({ job }) => job === "push")?.records_added ?? 0;
  expect(added).toBeGreaterThan(0);
  metrics.observeRun({ ...report, people_changed: { people: 3, by_field_group: { work_experience: 2 } } });
  const after = await totals();
  expect(series(after)).toEqual(series(before));
  expect(after).toContain('person_etl_runs_total{job="enrich_customers",type="enrich",status="succeeded"} 1');
  expect(after).toContain(`person_etl_push_records_total{job="push",outcome="added"} ${added}`);
  expect(after).toContain('person_etl_people_changed_total{field_group="work_experience"} 2');
});
