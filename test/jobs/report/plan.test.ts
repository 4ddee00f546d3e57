import { beforeAll, expect, test } from "vitest";
import { planJobs } from "../../../src/jobs/report/plan.ts";
import { readStatus } from "../../../src/jobs/report/status.ts";
import { MIDNIGHT_TIMEOUT_MS, passMidnight } from "../../support/held-day.ts";
import { recordAnswers } from "../lookup/recording-proxy.ts";
import { configOf, enrichOnly, jobOf, resolveOnly, startWorld, threeJobs } from "../world.ts";

beforeAll(passMidnight, MIDNIGHT_TIMEOUT_MS);

test("a plan predicts what the run then does, and creates nothing but the tables", async () => {
  const world = await startWorld({ rows: 100, unmigrated: true, config: configOf(resolveOnly) });
  const services = await world.services();
  const { jobs } = await planJobs(services, []);
  expect(await world.value("SELECT count(*) FROM person_data_ops.sync_run")).toBe("0");
  expect(await world.value("SELECT count(*) FROM person_data_ops.api_call")).toBe("0");
  const job = jobOf(await world.run(), "resolve_customers");
  const due = job.records_sent + job.records_duplicate;
  const basis = "no history yet, so every record is assumed to match";
  expect(jobs).toEqual([
    {
      job: "resolve_customers",
      type: "resolve",
      records_read: 100,
      records_due: due,
      due_reasons: { never_answered: due },
      records_unchanged: 0,
      records_duplicate: job.records_duplicate,
      records_suppressed: 0,
      records_waiting: 0,
      records_rejected_before_sending: job.records_rejected_before_sending,
      reject_reasons: { not_resolvable: job.records_rejected_before_sending },
      records_to_send: job.records_sent,
      records_expected: job.records_sent,
      records_remaining: 0,
      limited_by: null,
      budget_left: null,
      calls: 1,
      estimated_billable: { low: 0, expected: job.records_sent, high: job.records_sent, basis },
      estimated_seconds: 1,
      needs_confirmation: false,
      waiting_answers: { calls: 0, bytes: 0 },
      remarks: [],
    },
  ]);
  expect((await planJobs(services, [])).jobs).toMatchObject([
    { records_unchanged: 100, records_due: 0, records_to_send: 0, calls: 0, estimated_seconds: 0 },
  ]);
});

test("a plan counts rows that wait for a job of the same run, and those of another as waiting only", async () => {
  const world = await startWorld({ rows: 100 });
  const services = await world.services();
  const { jobs } = await planJobs(services, []);
  expect(jobs.some((job) => "requests" in job)).toBe(false);
  const basis =
    "no history yet, so every record is assumed to match, including 100 records that wait for resolve_customers";
  expect(jobs[2]).toMatchObject({
    job: "enrich_customers",
    records_to_send: 0,
    records_waiting: 100,
    calls: 1,
    estimated_billable: { expected: 100, basis },
  });
  expect((await planJobs(services, ["enrich_customers"], { show: 1 })).jobs).toMatchObject([
    {
      records_waiting: 100,
      calls: 0,
      estimated_billable: { expected: 0, basis: "nothing to send" },
      requests: [],
      remarks: ["100 rows wait for resolve_customers, which is not part of this plan"],
    },
  ]);
});

test("a plan of a feed has its least calls, and says which ones may follow", async () => {
  const feeds = `
  search_usage: { type: search_usage }
  endpoint_usage: { type: endpoint_usage, bucketing_size: day, start_date: 2026-01-01 }`;
  const world = await startWorld({ rows: 1, config: configOf(feeds) });
  const { jobs } = await planJobs(await world.services(), []);
  expect(jobs.map(({ job, calls, remarks }) => [job, calls, remarks])).toEqual([
    ["search_usage", 1, []],
    ["endpoint_usage", 2, ["more calls, one for each further window of buckets"]],
  ]);
});

test("a plan counts what --resend and --max-records change, and marks nothing", async () => {
  const world = await startWorld({ rows: 100, config: configOf(resolveOnly) });
  const services = await world.services();
  await world.run();
  const sent = Number(await world.value("SELECT sum(records_sent) FROM person_data_ops.sync_run"));
  expect((await planJobs(services, [], { resend: true })).jobs).toMatchObject([
    { due_reasons: { resend: sent }, records_to_send: sent, records_remaining: 0, limited_by: null },
  ]);
  expect((await planJobs(services, [], { resend: true, maxRecords: 10, show: 1 })).jobs).toMatchObject([
    {
      records_to_send: 10,
      records_remaining: sent - 10,
      limited_by: "max_records",
      requests: [{ records: 10 }],
    },
  ]);
  expect((await planJobs(services, [])).jobs).toMatchObject([{ records_due: 0 }]);
});

test("a plan shows what a budget leaves, job after job", async () => {
  const jobs = `${enrichOnly}\n  enrich_again: { type: enrich, input: customers, return_fields: [age], after: enrich_customers }`;
  const config = configOf(jobs, "budgets: { enrich: { per_day: 120, per_month: 2000 } }");
  const world = await startWorld({ rows: 100, config });
  const services = await world.services();
  const fresh = await planJobs(services, []);
  expect(fresh.budgets).toEqual([
    { budget: "enrich", period: "day", limit: 120, used: 0, left: 120 },
    { budget: "enrich", period: "month", limit: 2000, used: 0, left: 2000 },
  ]);
  const first = fresh.jobs[0]?.records_to_send ?? 0;
  expect(first).toBeGreaterThan(80);
  const rest = 120 - first;
  expect(fresh.jobs).toMatchObject([
    { budget_left: 120, records_remaining: 0, limited_by: null },
    { budget_left: rest, records_to_send: rest, limited_by: "budget_day" },
  ]);
  const report = await world.run();
  expect(report.jobs.map((job) => job.records_sent)).toEqual([first, rest]);
  const spent = await planJobs(services, []);
  expect(spent.budgets[0]).toEqual({ budget: "enrich", period: "day", limit: 120, used: 120, left: 0 });
  const { attention } = await readStatus(services);
  expect(attention.map(({ code }) => code)).toEqual(["used_up"]);
  expect(spent.jobs[1]).toMatchObject({
    budget_left: 0,
    records_to_send: 0,
    limited_by: "budget_day",
    calls: 0,
  });
});

test("the requests that a plan shows are those that the service then receives, byte for byte", async () => {
  const config = configOf(`${threeJobs}
  enrich_some: { type: enrich, input: customers, return_fields: [first_name], max_records_per_run: 20 }`);
  const world = await startWorld({ rows: 1200, people: 1500, config });
  const answers = await recordAnswers(world);
  const services = await world.services();
  const sizes: Record<string, unknown> = {};
  for (const job of ["resolve_customers", "validate_customers", "enrich_customers", "enrich_some"]) {
    const [plan] = (await planJobs(services, [job], { show: 2, maxRecords: 1050 })).jobs;
    const shown = plan?.requests ?? [];
    sizes[job] = shown.map(({ records }) => records);
    const before = answers.length;
    await world.run({ jobs: [job], maxRecords: 1050 });
    const received = answers.slice(before).map(({ path, request }) => [path, request]);
    const expected = shown.map(({ path, body }) => [path, JSON.stringify(body)]);
    expect(received).toEqual(expect.arrayContaining(expected));
  }
  expect(sizes).toEqual({
    resolve_customers: [1000, 50],
    validate_customers: [1050],
    enrich_customers: [500, 500],
    enrich_some: [20],
  });
});
