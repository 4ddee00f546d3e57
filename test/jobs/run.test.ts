import { describe, expect, test } from "vitest";
import { planJobs } from "../../src/jobs/report/plan.ts";
import { exitCodeOf, zeroCounters } from "../../src/jobs/job.ts";
import { readStatus } from "../../src/jobs/report/status.ts";
import { configOf, jobOf, repeats, startWorld, threeJobs, unaccountedRows } from "./world.ts";

const enrichOnly = "\n  enrich_customers: { type: enrich, input: customers }";
const resolveOnly = "\n  resolve_customers: { type: resolve, input: customers }";

describe("a night of resolve, validate and enrich", () => {
  test("sends every distinct record once, and the second night nothing", async () => {
    const world = await startWorld({ rows: 1000 });
    const report = await world.run({ runId: "first" });
    expect(report).toMatchObject({ status: "succeeded", run_id: "first" });
    expect(exitCodeOf(report, null)).toBe(0);
    expect(report.jobs.map((job) => [job.job, job.type, job.status])).toEqual([
      ["resolve_customers", "resolve", "succeeded"],
      ["validate_customers", "validate_emails", "succeeded"],
      ["enrich_customers", "enrich", "succeeded"],
    ]);
    expect(report.jobs.map(unaccountedRows)).toEqual([0, 0, 0]);
    expect(jobOf(report, "resolve_customers").records_read).toBe(1000);
    expect(jobOf(report, "validate_customers").records_read).toBe(
      Number(
        await world.value(
          `SELECT count(nullif(trim(email), '')) + count(nullif(trim(work_email), '')) FROM crm.customers`,
        ),
      ),
    );
    expect(await repeats(world)).toEqual({ received: 0, billed: 0 });

    const again = await world.run();
    expect(again.jobs.map((job) => [job.status, job.records_sent, job.requests, job.rows_written])).toEqual([
      ["succeeded", 0, 0, 0],
      ["succeeded", 0, 0, 0],
      ["succeeded", 0, 0, 0],
    ]);
    expect(again.jobs.map((job) => job.records_unchanged)).toEqual(
      report.jobs.map((job) => job.records_read),
    );
  });

  test("closes the run of another job whose process was killed, so that safe_until moves on", async () => {
    const world = await startWorld({ rows: 20, config: configOf(resolveOnly) });
    await world.run({ runId: "killed" });
    await world.rows("UPDATE person_data_ops.sync_run SET job = 'removed_job', status = 'running'");
    await world.rows(`UPDATE person_data_state.job_lock SET job = 'removed_job', released_at = NULL,
      expires_at = now() - interval '1 second'`);
    await world.run({ runId: "next" });
    expect(await world.value("SELECT status FROM person_data_ops.sync_run WHERE run_id = 'killed'")).toBe(
      "failed",
    );
    expect(
      await world.value("SELECT bool_and(safe_until = now()) FROM person_data_ops.table_freshness"),
    ).toBe("t");
  });

  test("writes the reported counts into sync_run", async () => {
    const world = await startWorld({ rows: 600, config: configOf(resolveOnly) });
    const report = await world.run({ runId: "night-1" });
    const job = jobOf(report, "resolve_customers");
    const [row = {}] = await world.rows("SELECT * FROM person_data_ops.sync_run");
    expect(row).toMatchObject({
      run_id: "night-1",
      job: "resolve_customers",
      job_type: "resolve",
      shard: "0/1",
      status: "succeeded",
      limited_by: null,
      error: null,
      records_due: String(job.records_sent + job.records_duplicate),
    });
    const isFresh = "SELECT _synced_at >= finished_at FROM person_data_ops.sync_run";
    expect(await world.value(isFresh)).toBe("t");
    const counters = Object.keys(zeroCounters).map((name) => [name, row[name]]);
    expect(Object.fromEntries(counters)).toEqual(
      Object.fromEntries(
        Object.keys(zeroCounters).map((name) => [name, String(new Map(Object.entries(job)).get(name))]),
      ),
    );
    expect(await world.value("SELECT sum(records_sent) FROM person_data_ops.api_call")).toBe(
      String(job.records_sent),
    );
    expect(await world.value("SELECT sum(records_matched) FROM person_data_ops.api_call")).toBe(
      String(job.records_matched),
    );
    expect(await world.value("SELECT count(*) FROM person_data_ops.api_call")).toBe(String(job.requests));
    const [coverage] = await world.rows("SELECT * FROM person_data_ops.input_coverage");
    expect(coverage).toMatchObject({
      source: "customers",
      input_rows: "600",
      answered: await world.value("SELECT count(*) FROM person_data.resolution"),
      matched: await world.value("SELECT count(*) FROM person_data.resolution WHERE is_match"),
      unmatched: await world.value("SELECT count(*) FROM person_data.resolution WHERE NOT is_match"),
      rejected: await world.value("SELECT count(*) FROM person_data.reject"),
      due: "0",
    });
  });

  test("sends rows with equal content once, and stores the answer for each", async () => {
    const world = await startWorld({ rows: 50, config: configOf(enrichOnly) });
    await world.rows("TRUNCATE crm.customers");
    await world.rows(`INSERT INTO crm.customers (id, first_name, last_name, email)
      SELECT n, 'Ada', 'Lovelace', 'ada@example.com' FROM generate_series(1, 40) AS n`);
    const job = jobOf(await world.run(), "enrich_customers");
    expect(job).toMatchObject({ records_read: 40, records_sent: 1, records_duplicate: 39, requests: 1 });
    expect(await world.value("SELECT count(*) FROM person_data.enrichment")).toBe("40");
    expect(await world.value("SELECT count(DISTINCT api_request_id) FROM person_data.enrichment")).toBe("1");
  });

  test("gives a later equal row the fresh answer without a call", async () => {
    const world = await startWorld({ rows: 50, config: configOf(enrichOnly) });
    await world.run();
    await world.rows(
      "INSERT INTO crm.customers SELECT 1000 + id, first_name, last_name, email, work_email, phone, linkedin, street, city, state, zip FROM crm.customers WHERE email IS NOT NULL LIMIT 5",
    );
    const job = jobOf(await world.run(), "enrich_customers");
    expect(job).toMatchObject({ status: "succeeded", records_sent: 0, records_duplicate: 5, requests: 0 });
    expect(unaccountedRows(job)).toBe(0);
    expect(
      await world.value("SELECT count(*) FROM person_data.enrichment WHERE source_key::int > 1000"),
    ).toBe("5");
  });

  test("sends only what changed", async () => {
    const world = await startWorld({ rows: 300 });
    await world.run();
    await world.rows(
      "UPDATE crm.customers SET first_name = 'Grace', last_name = 'Hopper', email = 'grace' || id || '@example.org' WHERE id <= 10",
    );
    const report = await world.run();
    expect(report.jobs.map((job) => [job.job, job.records_sent])).toEqual([
      ["resolve_customers", 10],
      ["validate_customers", 10],
      ["enrich_customers", 10],
    ]);
    expect(report.jobs.map(unaccountedRows)).toEqual([0, 0, 0]);
  });
});

describe("a plan", () => {
  test("predicts what the run then does, and creates nothing but the tables", async () => {
    const world = await startWorld({ rows: 500, unmigrated: true, config: configOf(resolveOnly) });
    const services = await world.services();
    const { jobs } = await planJobs(services, []);
    expect(await world.value("SELECT count(*) FROM person_data_ops.sync_run")).toBe("0");
    expect(await world.value("SELECT count(*) FROM person_data_ops.api_call")).toBe("0");
    const job = jobOf(await world.run(), "resolve_customers");
    expect(jobs).toEqual([
      {
        job: "resolve_customers",
        type: "resolve",
        records_read: 500,
        records_due: job.records_sent + job.records_duplicate,
        due_reasons: { never_answered: job.records_sent + job.records_duplicate },
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
        estimated_billable: {
          low: 0,
          expected: job.records_sent,
          high: job.records_sent,
          basis: "no history: assumes that every record matches",
        },
        estimated_seconds: 1,
        needs_confirmation: false,
        waiting_answers: { calls: 0, bytes: 0 },
        remarks: [],
      },
    ]);
    expect((await planJobs(services, [])).jobs).toMatchObject([
      { records_unchanged: 500, records_due: 0, records_to_send: 0, calls: 0, estimated_seconds: 0 },
    ]);
  });

  test("counts rows that wait for a job of the same run, and those of another as waiting only", async () => {
    const world = await startWorld({ rows: 100 });
    const services = await world.services();
    const { jobs } = await planJobs(services, []);
    expect(jobs[2]).toMatchObject({
      job: "enrich_customers",
      records_to_send: 0,
      records_waiting: 100,
      calls: 1,
      estimated_billable: {
        expected: 100,
        basis:
          "no history: assumes that every record matches, including 100 records that wait for resolve_customers",
      },
    });
    expect((await planJobs(services, ["enrich_customers"])).jobs).toMatchObject([
      { records_waiting: 100, calls: 0, estimated_billable: { expected: 0, basis: "nothing to send" } },
    ]);
  });

  test("says that the run will ask, and why", async () => {
    const world = await startWorld({
      rows: 100,
      config: configOf(enrichOnly, "confirm_above: { records: 50, ratio: 0.2 }"),
    });
    await world.run();
    await world.rows("UPDATE crm.customers SET city = 'Elsewhere'");
    const [plan] = (await planJobs(await world.services(), [])).jobs;
    expect(plan).toMatchObject({
      needs_confirmation: true,
      remarks: [
        expect.stringMatching(
          /^the run asks first, or needs --yes: more is due than confirm_above allows: 100 rows, /,
        ),
      ],
    });
    expect((await world.run()).jobs[0]?.error?.code).toBe("confirmation");
  });

  test("after a trial says that the full run won't ask, which it doesn't", async () => {
    const world = await startWorld({
      rows: 300,
      config: configOf(threeJobs, "confirm_above: { records: 50, ratio: 0.2 }"),
    });
    await world.run({ maxRecords: 20 });
    const { jobs } = await planJobs(await world.services(), []);
    expect(jobs.map((job) => job.needs_confirmation)).toEqual([false, false, false]);
    expect((await world.run()).status).toBe("succeeded");
  });

  test("expects the match rate seen so far", async () => {
    const world = await startWorld({ rows: 400, config: configOf(enrichOnly) });
    const first = jobOf(await world.run(), "enrich_customers");
    await world.rows("UPDATE crm.customers SET city = 'Elsewhere'");
    const [plan] = (await planJobs(await world.services(), [])).jobs;
    const second = jobOf(await world.run(), "enrich_customers");
    expect(plan?.records_to_send).toBe(second.records_sent);
    const { low = 0, expected = 0, high = 0 } = plan?.estimated_billable ?? {};
    expect(expected / second.records_sent).toBeCloseTo(first.records_matched / first.records_sent, 1);
    expect(low).toBeLessThanOrEqual(second.records_matched);
    expect(high).toBeGreaterThanOrEqual(second.records_matched);
  });
});

test("the status reports how each job did, also before the first run", async () => {
  const world = await startWorld({ unmigrated: true, rows: 60 });
  await world.warehouse.migrate();
  const before = await readStatus(await world.services());
  expect(before.service_host).toBe(null);
  expect(before.jobs.map((job) => [job.job, job.last_run, job.coverage])).toEqual([
    ["resolve_customers", null, null],
    ["validate_customers", null, null],
    ["enrich_customers", null, null],
  ]);
  const report = await world.run();
  const after = await readStatus(await world.services());
  expect(after.service_host).toBe(new URL(world.sandbox.url).host);
  expect(after.jobs.map((job) => job.last_run?.records_sent)).toEqual(
    report.jobs.map((job) => job.records_sent),
  );
  expect(after.jobs[0]).toMatchObject({
    enabled: true,
    last_run: { run_id: report.run_id, status: "succeeded" },
    coverage: { source: "customers", input_rows: 60, due: 0 },
    open_rejects: { not_resolvable: report.jobs[0]?.records_rejected },
  });
  expect(after.tables.map((table) => table.table_name)).toContain("person_address");
});

test("an unknown error says what was being done", async () => {
  const world = await startWorld({
    rows: 20,
    config: configOf("\n  enrich_customers: { type: enrich, input: customers }"),
  });
  await world.run();
  await world.rows("ALTER TABLE person_data_state.lookup_row DROP COLUMN missing_since CASCADE");
  const failing = jobOf(await world.run(), "enrich_customers");
  expect([failing.status, failing.error?.code]).toEqual(["failed", "42703"]);
  expect(failing.error?.message).toMatch(
    /^The database reported an unexpected error while reading the input \(SQLSTATE 42703, [^)]+\)\./,
  );
});
