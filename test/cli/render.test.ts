import { describe, expect, test } from "vitest";
import { renderRunSummary } from "../../src/cli/commands/run.ts";
import { renderBudgets, renderRunCost } from "../../src/cli/costs.ts";
import { layOut, paragraphs, wrapLines } from "../../src/cli/output.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { type JobReport, type Status, zeroCounters } from "../../src/jobs/job.ts";
import type { Cost } from "../../src/jobs/price.ts";
import type { PublishResult } from "../../src/jobs/publish/publisher.ts";
import { jobTypes } from "../../src/jobs/registry.ts";
import { configText } from "./support/setting.ts";

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

test.each<readonly [jobs: readonly Job[], cost: Partial<Cost>, shard: string | null, line: string]>([
  [[], {}, null, "Cost: $0.00."],
  [[enrich], { amount: 123.4 }, null, "Cost: $123.40 (enrich_customers: 1,234 records at $0.10)."],
  [
    [enrich, validate],
    { amount: 127.4, possibly_billed: 50, possibly_billed_amount: 5 },
    "0/2",
    "Cost of all shards so far: $127.40 (enrich_customers: 1,234 records at $0.10; validate_customers: 2,000 records at $0.002). " +
      "Up to $5.00 more: 50 records may have been billed without a response.",
  ],
  [[], { records_without_price: 3 }, null, "Cost: $0.00. Not included: 3 billed records without a price."],
])(
  "the cost of %j is one sentence, with what may have been billed in addition",
  (jobs, cost, shard, line) => {
    const report = { ...reportOf(jobs), cost: { ...nothing, ...cost } };
    expect(renderRunCost(shard === null ? report : { ...report, shard })).toBe(line);
    expect(renderRunCost(reportOf(jobs))).toBe("");
    expect(renderRunCost({ ...reportOf(jobs), possibly_billed: 4595 })).toBe(
      "Up to 4,595 records may have been billed without a response.",
    );
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
    "(a limit in money counts everything that was or may have been billed, at current prices)",
  ]);
});

describe("the summary of a run", () => {
  async function summaryOf(options: {
    readonly jobs: readonly Job[];
    readonly status?: Status;
    readonly billed?: Readonly<Record<string, number>>;
    readonly publications?: readonly PublishResult[];
    readonly changed?: Readonly<Record<string, number>>;
  }): Promise<string> {
    const text = configText({ baseUrl: "https://service.example" });
    const env = { PERSON_SERVICE_API_KEY: "k", WAREHOUSE_URL: "postgres://localhost/x" };
    const config = await loadConfig({ jobTypes, file: "config.yaml", text, env });
    const changed = options.changed && { people_changed: { people: 1204, by_field_group: options.changed } };
    const summary = renderRunSummary(
      { ...reportOf(options.jobs, options.status), ...changed },
      {
        config,
        publications: options.publications ?? [],
        billed: new Map(Object.entries(options.billed ?? {})),
        seconds: 14,
        warehouse: "Postgres at db.example/warehouse",
        isTrial: false,
      },
    );
    return layOut(summary, 80);
  }

  const headlineOf = async (options: Parameters<typeof summaryOf>[0]) =>
    (await summaryOf(options)).split("\n").at(-1);

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
• capped: stopped at --max-records; 7 rows remain.

Data: Postgres at db.example/warehouse

✗ 1 of 4 jobs failed, 1 skipped (14 s): 10 records sent. Completed work is kept.`);
  });

  test("says in what people changed, in lines of 80 columns", async () => {
    const groups = {
      scalars: 1100,
      phones: 1,
      work_experience: 311,
      address_history: 402,
      personal_emails: 12,
    };
    const lines = wrapLines(await summaryOf({ jobs: [sent, push], changed: groups }), 80).split("\n");
    expect(lines.slice(lines.indexOf("") + 6, -4)).toEqual([
      "• 1,204 people changed: 311 jobs, 402 addresses, 12 personal e-mails, 1 phone,",
      "  1,100 other fields.",
    ]);
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
  const search: Job = { job: "s", type: "person_search", records_sent: 2, records_received: 24 };
  const members: Job = { job: "m", type: "segment_members", records_received: 1_000_000, rows_written: 9 };
  const sent: Job = { job: "e", type: "enrich", records_sent: 9, records_matched: 8, rows_written: 30 };
  const kept = "(14 s): 9 records sent, 8 people enriched. Completed work is kept.";
  const stopped = (status: Status, limitedBy?: "credits" | "confirmation") => ({
    status,
    jobs: [{ ...sent, status, ...(limitedBy ? { limited_by: limitedBy } : {}) }],
  });
  test.each<readonly [string, Parameters<typeof summaryOf>[0]]>([
    [
      "✓ Done in 14 s: nothing has changed since the last run, so nothing was sent.",
      { jobs: [{ job: "r", type: "resolve", records_read: 400, records_unchanged: 400 }] },
    ],
    ["✓ Done in 14 s: nothing was sent, 1,000,000 records received, 9 rows written.", { jobs: [members] }],
    ["✓ Done in 14 s: 500 PIDs pushed, 500 rows written.", { jobs: [push] }],
    [
      "✓ Done in 14 s: 1 PID pushed, 3 members removed, 2 searches, 24 billed.",
      { jobs: [{ ...push, records_sent: 1, records_removed: 3 }, search], billed: { s: 24 } },
    ],
    ["✓ Done in 14 s: 1 contact job.", { jobs: [{ job: "c", type: "contact_jobs", records_sent: 1 }] }],
    [
      "✓ Done in 14 s: 9 records sent, 8 billed, 8 people enriched.",
      { jobs: [sent, push], billed: { e: 8 } },
    ],
    [`• 1 of 1 job stopped at a limit ${kept}`, stopped("limited", "credits")],
    [`• 1 of 1 job stopped until you confirm ${kept}`, stopped("limited", "confirmation")],
    [`✗ 1 of 1 job skipped: locked by another process ${kept}`, stopped("locked")],
    [`• Stopped by a signal; the next run resumes ${kept}`, stopped("interrupted")],
    [
      "• Done in 14 s: 9 records sent, 8 people enriched. Not published: local.",
      { jobs: [sent], publications: [failed] },
    ],
    [`✗ 1 of 1 job failed ${kept} Not published: local.`, { ...stopped("failed"), publications: [failed] }],
  ])("ends with: %s", async (line, options) => {
    expect(await headlineOf(options)).toBe(line);
  });
});
