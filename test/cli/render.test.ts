import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { renderPlan } from "../../src/cli/commands/plan.ts";
import { renderRunSummary } from "../../src/cli/commands/run.ts";
import { renderBudgets, renderRunCost } from "../../src/cli/costs.ts";
import { layOut, paragraphs } from "../../src/cli/output.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { type JobReport, type Status, zeroCounters } from "../../src/jobs/job.ts";
import type { JobPlan } from "../../src/jobs/job-type.ts";
import type { Cost } from "../../src/jobs/price.ts";
import type { PublishResult } from "../../src/jobs/publish/publisher.ts";
import { jobTypes } from "../../src/jobs/registry.ts";
import { makeFolder } from "./support/cli.ts";
import { configText } from "./support/setting.ts";

const idle: JobPlan = {
  job: "usage",
  type: "endpoint_usage",
  records_read: 0,
  records_due: 0,
  due_reasons: {},
  records_unchanged: 0,
  records_duplicate: 0,
  records_waiting: 0,
  records_suppressed: 0,
  records_rejected_before_sending: 0,
  reject_reasons: {},
  records_to_send: 0,
  records_expected: 0,
  records_remaining: 0,
  limited_by: null,
  budget_left: null,
  calls: 2,
  estimated_billable: { low: 0, expected: 0, high: 0, basis: "nothing to send" },
  estimated_seconds: 2,
  waiting_answers: { calls: 0, bytes: 0 },
  needs_confirmation: false,
  remarks: [],
};

test("a plan shows only ends of rows that occur, which add up to the rows read, and remarks where there is something to explain", () => {
  const resolve: JobPlan = {
    ...idle,
    job: "resolve_customers",
    type: "resolve",
    records_read: 14_629,
    records_due: 3,
    due_reasons: { never_answered: 3 },
    records_rejected_before_sending: 14_626,
    reject_reasons: { duplicate_key: 14_626 },
    records_to_send: 3,
    records_expected: 3,
    calls: 1,
    estimated_billable: { low: 0, expected: 3, high: 3, basis: "no history" },
    estimated_seconds: 1,
  };
  expect(
    layOut(renderPlan({ jobs: [resolve, idle], budgets: [] }), 80),
  ).toBe(`input rows           read  rejected  to send
────────────────────────────────────────────
resolve_customers  14,629    14,626        3
(read = rejected + to send)

this run           records  calls  billed (est.)  time (est.)
─────────────────────────────────────────────────────────────
resolve_customers        3      1              3        1.0 s
usage                    0      2              0        2.0 s
total                    3      3              3

resolve_customers
  • due: 3 never answered
  • billed: at most 3, no history
  • rejected: 14,626 duplicate key. Another row of the input has the same key; only one of them is used.

Nothing was sent or billed. \`plan --show 1\` prints the first request of each job.`);
});

type Job = Partial<JobReport> & { readonly job: string; readonly type: string };

const reportOf = (jobs: readonly Job[], status: Status = "succeeded") => ({
  status,
  run_id: "20261122T195121Z-1e2651bd",
  jobs: jobs.map((job): JobReport => ({ status: "succeeded", seconds: 1, ...zeroCounters, ...job })),
});

const nothing: Cost = {
  amount: 0,
  possibly_billed_amount: 0,
  currency: "USD",
  records_billed: 0,
  possibly_billed: 0,
  price: null,
  records_without_price: 0,
};

const billed = (job: string, type: string, cost: Partial<Cost>): Job => ({
  job,
  type,
  cost: { ...nothing, ...cost },
});
const enrich = billed("enrich_customers", "enrich", { amount: 123.4, records_billed: 1234, price: 0.1 });
const validate = billed("validate_customers", "validate_emails", { records_billed: 2000, price: 0.002 });
const vips = billed("vips", "audience_search", { records_billed: 1, price: 0.2 });

test.each<readonly [jobs: readonly Job[], cost: Partial<Cost>, shard: string | null, line: string]>([
  [[], {}, null, "Cost: $0.00."],
  [[enrich], { amount: 123.4 }, null, "Cost: $123.40 (1,234 matches at $0.10)."],
  [[validate], { amount: 4 }, null, "Cost: $4.00 (2,000 addresses at $0.002)."],
  [[vips], { amount: 0.2 }, null, "Cost: $0.20 (1 record at $0.20)."],
  [
    [enrich, validate],
    { amount: 127.4, possibly_billed: 50, possibly_billed_amount: 5 },
    "0/2",
    "Cost of all shards so far: $127.40 (enrich_customers: 1,234 at $0.10; validate_customers: 2,000 at $0.002). " +
      "Up to $5.00 more: 50 records may have been billed without an answer.",
  ],
  [[], { records_without_price: 3 }, null, "Cost: $0.00. 3 billed records without a price not included."],
])(
  "the cost of %j is one sentence, with what may have been billed in addition",
  (jobs, cost, shard, line) => {
    const report = { ...reportOf(jobs), cost: { ...nothing, ...cost } };
    expect(renderRunCost(shard === null ? report : { ...report, shard })).toBe(line);
    expect(renderRunCost(reportOf(jobs))).toBe("");
  },
);

test("budgets in money fit 80 columns", () => {
  const money = { limit_amount: 500, left_amount: 476, price: 0.002, currency: "USD" };
  const used = { limit: 250_000, used: 12_000, left: 238_000, lasts_until: null };
  const budgets = [
    { budget: "validate_emails", period: "month", ...used, ...money },
    { budget: "enrich", period: "day", limit: 20_000, used: 20_000, left: 0, lasts_until: null },
  ] as const;
  expect(layOut(paragraphs(renderBudgets(budgets)), 80).split("\n")).toEqual([
    "budget           records                       limit    used               left",
    "───────────────────────────────────────────────────────────────────────────────",
    "validate_emails  this month (UTC)  250,000 ($500.00)  12,000  238,000 ($476.00)",
    "enrich           today (UTC)                  20,000  20,000                  0",
    "(a limit in money counts every record sent as billed, at the current price)",
  ]);
});

describe("the summary of a run", () => {
  async function summaryOf(options: {
    readonly jobs: readonly Job[];
    readonly status?: Status;
    readonly billed?: Readonly<Record<string, number>>;
    readonly publications?: readonly PublishResult[];
    /** True for the sandbox and the embedded database. */
    readonly isTrial?: boolean;
  }): Promise<string> {
    const parts = options.isTrial
      ? { warehouse: "{ url: embedded }" }
      : { baseUrl: "https://service.example" };
    const folder = await makeFolder({ "config.example.yaml": configText(parts) });
    const config = await loadConfig({
      jobTypes,
      file: join(folder, "config.example.yaml"),
      env: { PERSON_SERVICE_API_KEY: "k", WAREHOUSE_URL: "postgres://localhost/x" },
    });
    const text = renderRunSummary(reportOf(options.jobs, options.status), {
      config,
      publications: options.publications ?? [],
      billed: new Map(Object.entries(options.billed ?? {})),
      seconds: 14,
      warehouse: "Postgres at db.example/warehouse",
    });
    return layOut(text, 80)
      .replaceAll(config.file, "config.example.yaml")
      .replaceAll(/\S*bin\/person-etl/g, "person-etl");
  }

  const headlineOf = async (options: Parameters<typeof summaryOf>[0]) =>
    (await summaryOf(options)).split("\n").at(-1);

  test("on 80 columns has a table that fits, next steps after a trial, and the outcome last", async () => {
    const resolve = { records_read: 15_000, records_sent: 14_195, records_matched: 12_266 };
    const jobs: readonly Job[] = [
      { job: "resolve_customers", type: "resolve", ...resolve, records_rejected: 647, rows_written: 29_353 },
      { job: "enrich_customers", type: "enrich", ...resolve },
      { job: "customer_members", type: "segment_members", records_received: 12_600, rows_written: 25_200 },
    ];
    expect(
      await summaryOf({ jobs, billed: { resolve_customers: 12_266 }, isTrial: true }),
    ).toBe(`Run 20261122T195121Z-1e2651bd

  job                  read    sent  billed  received  matched  rejected
────────────────────────────────────────────────────────────────────────
✓ resolve_customers  15,000  14,195  12,266             12,266       647
✓ enrich_customers   15,000  14,195                     12,266
✓ customer_members                             12,600

• 647 records were rejected. To see why:
  person-etl --config config.example.yaml rejects list

To see runs, costs and coverage in a browser (until Ctrl-C):
  person-etl --config config.example.yaml ui
To query the data with psql or a BI tool, start its database (until Ctrl-C):
  person-etl --config config.example.yaml database
Your rows with the people they match:
  SELECT source_key, full_name, linkedin_title, estimated_income_range
  FROM person_data.identity_link JOIN person_data.person USING (service_pid)
  LIMIT 10;
To use your own service, database and tables, write a configuration:
  person-etl init

✓ Done in 14 s: 28,390 records sent, 12,266 billed, 12,266 people enriched.`);
  });

  test("says why a run stopped, with the name of each job once", async () => {
    const jobs: readonly Job[] = [
      { job: "resolve", type: "resolve", records_sent: 10 },
      {
        job: "enrich",
        type: "enrich",
        status: "failed",
        error: { code: "x", message: "enrich: 51 of 1,000 records were rejected." },
      },
      {
        job: "push",
        type: "segment_push",
        status: "skipped",
        error: { code: "dependency_failed", message: "push was skipped because enrich did not succeed." },
      },
      { job: "capped", type: "enrich", status: "limited", limited_by: "max_records", records_remaining: 7 },
    ];
    expect(await summaryOf({ jobs, status: "failed" })).toBe(`Run 20261122T195121Z-1e2651bd

  job      status   sent  remaining
───────────────────────────────────
✓ resolve             10
✗ enrich   failed
✗ push     skipped
• capped   limited                7

✗ enrich: 51 of 1,000 records were rejected.
✗ push was skipped because enrich did not succeed.
• capped: stopped at max_records; 7 rows left for the next run.

Data: Postgres at db.example/warehouse

✗ 1 of 4 jobs failed, 1 skipped (14 s): 10 records sent. Completed work is kept.`);
  });

  const failed: PublishResult = {
    destination: "local",
    status: "failed",
    batches: 0,
    rows: 0,
    tables_differing: null,
    seconds: 1,
    error: { code: "destination_refused", message: "Destination local can't be used: no." },
  };
  const push: Job = { job: "p", type: "segment_push", records_sent: 500, rows_written: 500 };
  const members: Job = { job: "m", type: "segment_members", records_received: 1_000_000, rows_written: 9 };
  const sent: Job = { job: "e", type: "enrich", records_sent: 9, records_matched: 8, rows_written: 30 };
  const kept = "(14 s): 9 records sent, 8 people enriched. Completed work is kept.";
  const stopped = (status: Status, limitedBy?: "credits" | "confirmation") => ({
    status,
    jobs: [{ ...sent, status, ...(limitedBy ? { limited_by: limitedBy } : {}) }],
  });
  test.each<readonly [string, Parameters<typeof summaryOf>[0]]>([
    [
      "✓ Done in 14 s: nothing has changed since the last run, no records sent.",
      { jobs: [{ job: "r", type: "resolve", records_read: 400, records_unchanged: 400 }] },
    ],
    ["✓ Done in 14 s: no records sent, 1,000,000 records received, 9 rows written.", { jobs: [members] }],
    ["✓ Done in 14 s: no records sent, 500 rows written.", { jobs: [push] }],
    [
      "✓ Done in 14 s: 9 records sent, 8 billed, 8 people enriched.",
      { jobs: [sent, push], billed: { e: 8 } },
    ],
    [`• 1 of 1 job stopped at a limit ${kept}`, stopped("limited", "credits")],
    [`• 1 of 1 job stopped, waiting for your confirmation ${kept}`, stopped("limited", "confirmation")],
    [`✗ 1 of 1 job skipped, because another process is running them ${kept}`, stopped("locked")],
    [`• Stopped by a signal, the next run resumes ${kept}`, stopped("interrupted")],
    [
      "• Done in 14 s: 9 records sent, 8 people enriched. Not published: local.",
      { jobs: [sent], publications: [failed] },
    ],
    [`✗ 1 of 1 job failed ${kept} Not published: local.`, { ...stopped("failed"), publications: [failed] }],
  ])("ends with: %s", async (line, options) => {
    expect(await headlineOf(options)).toBe(line);
  });
});
