import { jobTypes } from "../../src/jobs/registry.ts";
import { join } from "node:path";
import { expect, test } from "vitest";
import { renderRunSummary } from "../../src/cli/run-summary.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { type JobReport, type RunReport, zeroCounters } from "../../src/jobs/run-report.ts";
import { makeFolder } from "./support/cli.ts";
import { configText } from "./support/setting.ts";

/** First line of the summary of a run in which all jobs succeeded. */
async function headlineOf(...jobs: readonly Partial<JobReport>[]): Promise<string | undefined> {
  const folder = await makeFolder({ "config.yaml": configText() });
  const report: RunReport = {
    status: "succeeded",
    run_id: "r",
    jobs: jobs.map((job) => ({
      job: "one",
      type: "enrich",
      status: "succeeded",
      seconds: 1,
      ...zeroCounters,
      ...job,
    })),
  };
  const config = await loadConfig({
    jobTypes,
    file: join(folder, "config.yaml"),
    env: { PERSON_SERVICE_API_KEY: "k", WAREHOUSE_URL: "postgres://localhost/x" },
  });
  const surroundings = {
    config,
    publications: [],
    seconds: 1,
    warehouse: "here",
    howToConnect: [],
    widthColumns: null,
  };
  return renderRunSummary(report, surroundings).split("\n")[0];
}

const quiet = { records_read: 400, records_unchanged: 400 };

test("reports that nothing has changed only if no row was written", async () => {
  expect(await headlineOf(quiet, { ...quiet, records_received: 5000 })).toBe(
    "✓ Nothing has changed since the last run: no records were sent.",
  );
  expect(
    await headlineOf({ type: "segment_members", records_received: 1_000_000, rows_written: 2_000_000 }),
  ).toBe("✓ Done: no records were sent, 1,000,000 records received, 2,000,000 rows written.");
  expect(await headlineOf({ ...quiet, rows_written: 1 })).toBe(
    "✓ Done: no records were sent, 1 row written.",
  );
});

test("reports the records sent first", async () => {
  expect(
    await headlineOf(
      { records_read: 9, records_sent: 9, records_matched: 8, rows_written: 30 },
      { type: "search_usage", records_received: 90, rows_written: 90 },
    ),
  ).toBe("✓ Done: 9 records sent, 8 people enriched.");
});
