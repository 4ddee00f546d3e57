import { join } from "node:path";
import { expect, test } from "vitest";
import { renderRunSummary } from "../../src/cli/commands/run-summary.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { jobTypes } from "../../src/jobs/registry.ts";
import type { PublishResult } from "../../src/jobs/publish/publisher.ts";
import { type JobReport, type RunReport, type Status, zeroCounters } from "../../src/jobs/job.ts";
import { makeFolder } from "./support/cli.ts";
import { configText } from "./support/setting.ts";

type Job = Partial<JobReport> & { readonly job: string; readonly type: string };

/** Renders the summary of a run of 14 seconds. */
async function summaryOf(options: {
  readonly jobs: readonly Job[];
  readonly status?: Status;
  readonly billed?: Readonly<Record<string, number>>;
  readonly widthColumns?: number;
  readonly publications?: readonly PublishResult[];
  /** Service and warehouse of the user. */
  readonly isProduction?: boolean;
}): Promise<string> {
  const parts = options.isProduction
    ? { baseUrl: "https://service.example" }
    : { warehouse: "{ url: embedded }" };
  const folder = await makeFolder({ "config.example.yaml": configText(parts) });
  const config = await loadConfig({
    jobTypes,
    file: join(folder, "config.example.yaml"),
    env: { PERSON_SERVICE_API_KEY: "k", WAREHOUSE_URL: "postgres://localhost/x" },
  });
  const report: RunReport = {
    status: options.status ?? "succeeded",
    run_id: "20261122T195121Z-1e2651bd",
    jobs: options.jobs.map((job) => ({ status: "succeeded", seconds: 1, ...zeroCounters, ...job })),
  };
  const text = renderRunSummary(report, {
    config,
    publications: options.publications ?? [],
    billed: new Map(Object.entries(options.billed ?? {})),
    seconds: 14,
    warehouse: "Postgres at db.example/warehouse",
    widthColumns: options.widthColumns ?? null,
  });
  return text.replaceAll(config.file, "config.example.yaml").replaceAll(/\S*bin\/person-etl/g, "person-etl");
}

/** Last line of the summary. */
async function headlineOf(options: Parameters<typeof summaryOf>[0]): Promise<string | undefined> {
  return (await summaryOf(options)).split("\n").at(-1);
}

/** The jobs of config.example.yaml after the first `npm start`. */
const EXAMPLE: readonly Job[] = [
  {
    job: "resolve_customers",
    type: "resolve",
    records_read: 15_000,
    records_duplicate: 158,
    records_sent: 14_195,
    records_matched: 12_266,
    records_rejected: 647,
    rows_written: 29_353,
    seconds: 1.3,
  },
  {
    job: "validate_customers",
    type: "validate_emails",
    records_read: 17_465,
    records_duplicate: 200,
    records_sent: 17_265,
    records_matched: 15_340,
    rows_written: 34_730,
    seconds: 1.1,
  },
  {
    job: "enrich_customers",
    type: "enrich",
    records_read: 15_000,
    records_duplicate: 169,
    records_sent: 14_747,
    records_matched: 12_600,
    records_rejected: 84,
    rows_written: 265_596,
    seconds: 4,
  },
  {
    job: "customer_segment",
    type: "segment_push",
    records_read: 12_745,
    records_duplicate: 145,
    records_sent: 12_600,
    records_matched: 12_600,
    rows_written: 12_601,
    seconds: 0.4,
  },
  {
    job: "customer_members",
    type: "segment_members",
    records_received: 12_600,
    rows_written: 25_200,
    seconds: 0.3,
  },
  { job: "customer_deaths", type: "death_signals", records_received: 195, rows_written: 390, seconds: 0.1 },
  { job: "search_usage", type: "search_usage", records_received: 90, rows_written: 91, seconds: 0 },
  {
    job: "prospects",
    type: "person_search",
    records_read: 1,
    records_sent: 1,
    records_received: 100,
    records_matched: 1,
    rows_written: 109,
    seconds: 0.5,
  },
  {
    job: "audiences",
    type: "audience_search",
    records_read: 1,
    records_sent: 1,
    records_received: 733,
    rows_written: 774,
    seconds: 4.5,
  },
  { job: "nurse_members", type: "segment_members", records_received: 733, rows_written: 1466, seconds: 0.1 },
  { job: "endpoint_usage", type: "endpoint_usage", records_received: 3924, rows_written: 3924, seconds: 0.3 },
];

const BILLED = {
  resolve_customers: 12_266,
  validate_customers: 17_265,
  enrich_customers: 12_600,
  audiences: 733,
};

test("the first summary on 80 columns has a table that fits, and the outcome last", async () => {
  const text = await summaryOf({ jobs: EXAMPLE, billed: BILLED, widthColumns: 80 });
  expect(text).toBe(`Run 20261122T195121Z-1e2651bd

  job                   read    sent  billed  received  matched  rejected
─────────────────────────────────────────────────────────────────────────
✓ resolve_customers   15,000  14,195  12,266             12,266       647
✓ validate_customers  17,465  17,265  17,265             15,340
✓ enrich_customers    15,000  14,747  12,600             12,600        84
✓ customer_segment    12,745  12,600                     12,600
✓ customer_members                              12,600
✓ customer_deaths                                  195
✓ search_usage                                      90
✓ prospects                1       1               100        1
✓ audiences                1       1     733       733
✓ nurse_members                                    733
✓ endpoint_usage                                 3,924

• 731 records were rejected. To see why:
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

✓ Done in 14 s: 46,207 records sent, 42,864 billed, 12,600 people enriched.`);
  expect(text.split("\n").length).toBeLessThanOrEqual(40);
});

test.for([
  [
    100,
    `  job                   read    sent  billed  received  matched  rejected  rows written  seconds
────────────────────────────────────────────────────────────────────────────────────────────────
✓ resolve_customers   15,000  14,195  12,266             12,266       647        29,353      1.3
✓ validate_customers  17,465  17,265  17,265             15,340                  34,730      1.1
✓ enrich_customers    15,000  14,747  12,600             12,600        84       265,596      4.0
✓ customer_segment    12,745  12,600                     12,600                  12,601      0.4
✓ customer_members                              12,600                           25,200      0.3
✓ customer_deaths                                  195                              390      0.1
✓ search_usage                                      90                               91      0.0
✓ prospects                1       1               100        1                     109      0.5
✓ audiences                1       1     733       733                              774      4.5
✓ nurse_members                                    733                            1,466      0.1
✓ endpoint_usage                                 3,924                            3,924      0.3`,
  ],
  [
    120,
    `  job                   read  duplicate    sent  billed  received  matched  rejected  rows written  seconds  sent/s
───────────────────────────────────────────────────────────────────────────────────────────────────────────────────
✓ resolve_customers   15,000        158  14,195  12,266             12,266       647        29,353      1.3  10,919
✓ validate_customers  17,465        200  17,265  17,265             15,340                  34,730      1.1  15,695
✓ enrich_customers    15,000        169  14,747  12,600             12,600        84       265,596      4.0   3,687
✓ customer_segment    12,745        145  12,600                     12,600                  12,601      0.4  31,500
✓ customer_members                                         12,600                           25,200      0.3
✓ customer_deaths                                             195                              390      0.1
✓ search_usage                                                 90                               91      0.0
✓ prospects                1                  1               100        1                     109      0.5       2
✓ audiences                1                  1     733       733                              774      4.5
✓ nurse_members                                               733                            1,466      0.1
✓ endpoint_usage                                            3,924                            3,924      0.3`,
  ],
] as const)("the table of the first summary on %s columns", async ([widthColumns, expected]) => {
  const text = await summaryOf({
    jobs: EXAMPLE,
    billed: BILLED,
    widthColumns,
  });
  expect(text.split("\n\n")[1]).toBe(expected);
});

test("without a terminal the table is as wide as it must be", async () => {
  const piped = await summaryOf({ jobs: EXAMPLE, billed: BILLED });
  expect(piped).toBe(await summaryOf({ jobs: EXAMPLE, billed: BILLED, widthColumns: 120 }));
});

test("a second run shows that nothing was sent", async () => {
  const quiet = { records_read: 400, records_unchanged: 400 };
  const jobs = [
    { job: "resolve_customers", type: "resolve", ...quiet },
    { job: "members", type: "segment_members", records_received: 5000 },
  ];
  expect(await summaryOf({ jobs, isProduction: true, widthColumns: 80 })).toBe(`Run 20261122T195121Z-1e2651bd

  job                read  unchanged  received  seconds
───────────────────────────────────────────────────────
✓ resolve_customers   400        400                1.0
✓ members                                5,000      1.0

Data: Postgres at db.example/warehouse

✓ Done in 14 s: nothing has changed since the last run, no records sent.`);
});

test("free records are no billed ones", async () => {
  const members = { job: "m", type: "segment_members", records_received: 1_000_000, rows_written: 2_000_000 };
  const push = { job: "p", type: "segment_push", records_sent: 500, rows_written: 500 };
  expect(await headlineOf({ jobs: [members] })).toBe(
    "✓ Done in 14 s: no records sent, 1,000,000 records received, 2,000,000 rows written.",
  );
  expect(await headlineOf({ jobs: [push] })).toBe("✓ Done in 14 s: no records sent, 500 rows written.");
  const enrich = { job: "e", type: "enrich", records_sent: 9, records_matched: 8, rows_written: 30 };
  expect(await headlineOf({ jobs: [enrich, push], billed: { e: 8 } })).toBe(
    "✓ Done in 14 s: 9 records sent, 8 billed, 8 people enriched.",
  );
});

test("a run that stopped says why, with the name of each job once", async () => {
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
  expect(
    await summaryOf({ jobs, status: "failed", isProduction: true, widthColumns: 80 }),
  ).toBe(`Run 20261122T195121Z-1e2651bd

  job      status   sent  remaining  seconds  sent/s
────────────────────────────────────────────────────
✓ resolve             10                 1.0      10
✗ enrich   failed                        1.0
✗ push     skipped                       1.0
• capped   limited                7      1.0

✗ enrich: 51 of 1,000 records were rejected.
✗ push was skipped because enrich did not succeed.
• capped: stopped at max_records; 7 rows left for the next run.

Data: Postgres at db.example/warehouse

✗ 1 of 4 jobs failed, 1 skipped (14 s): 10 records sent. Completed work is kept.`);
  const one = (status: Status, rest: Partial<Job> = {}) =>
    headlineOf({ status, jobs: [{ job: "enrich", type: "enrich", records_sent: 1, status, ...rest }] });
  expect(await one("limited", { limited_by: "credits" })).toBe(
    "• 1 of 1 job stopped at a limit (14 s): 1 record sent. Completed work is kept.",
  );
  expect(await one("limited", { limited_by: "confirmation" })).toBe(
    "• 1 of 1 job stopped, waiting for your confirmation (14 s): 1 record sent. Completed work is kept.",
  );
  expect(await one("locked")).toBe(
    "✗ 1 of 1 job skipped, because another process is running them (14 s): 1 record sent. Completed work is kept.",
  );
  expect(await one("interrupted")).toBe(
    "• Stopped by a signal, the next run resumes (14 s): 1 record sent. Completed work is kept.",
  );
});

test("a publication that failed is in the summary and in its outcome, whatever became of the jobs", async () => {
  const failed: PublishResult = {
    destination: "local",
    status: "failed",
    batches: 0,
    rows: 0,
    tables_differing: null,
    seconds: 1,
    error: { code: "destination_refused", message: "Destination local can't be used: no." },
  };
  const jobs = [{ job: "enrich", type: "enrich", records_read: 2, records_sent: 2 }];
  const text = await summaryOf({ jobs, publications: [failed] });
  expect(text).toContain("\n✗ local: Destination local can't be used: no.\n");
  expect(text.split("\n").at(-1)).toBe("• Done in 14 s: 2 records sent. Not published: local.");
  expect(await headlineOf({ jobs, status: "failed", publications: [failed] })).toMatch(
    /kept\. Not published: local\.$/,
  );
});
