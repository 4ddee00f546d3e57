import { describe, expect, test } from "vitest";
import { planJobs } from "../../src/jobs/plan.ts";
import { exitCodeOf, zeroCounters } from "../../src/jobs/report.ts";
import { readStatus } from "../../src/jobs/status.ts";
import { configOf, jobOf, startWorld, threeJobs, unaccountedRows, type World } from "./world.ts";

const enrichOnly = "\n  enrich_customers: { type: enrich, input: customers }";
const resolveOnly = "\n  resolve_customers: { type: resolve, input: customers }";

/** Records that the sandbox took in more than once, and those it charged for more than once. */
async function repeats(world: World): Promise<{ received: number; billed: number }> {
  // The sandbox's own controls answer so.
  const { contents } = (await world.control("/ledger")) as {
    contents: { received_more_than_once: number; billed_more_than_once: number };
  };
  return { received: contents.received_more_than_once, billed: contents.billed_more_than_once };
}

describe("a night of resolve, validate and enrich", () => {
  test("sends every distinct record once, and the second night nothing", async () => {
    const world = await startWorld({ rows: 2000 });
    const report = await world.run({ runId: "first" });
    expect(report).toMatchObject({ status: "succeeded", run_id: "first" });
    expect(exitCodeOf(report, null)).toBe(0);
    expect(report.jobs.map((job) => [job.job, job.type, job.status])).toEqual([
      ["resolve_customers", "resolve", "succeeded"],
      ["validate_customers", "validate_emails", "succeeded"],
      ["enrich_customers", "enrich", "succeeded"],
    ]);
    expect(report.jobs.map(unaccountedRows)).toEqual([0, 0, 0]);
    expect(jobOf(report, "resolve_customers").records_read).toBe(2000);
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

  test("writes into the books what it reports", async () => {
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

  test("asks once for rows with equal content, and answers each of them", async () => {
    const world = await startWorld({ rows: 50, config: configOf(enrichOnly) });
    await world.rows("TRUNCATE crm.customers");
    await world.rows(`INSERT INTO crm.customers (id, first_name, last_name, email)
      SELECT n, 'Ada', 'Lovelace', 'ada@example.com' FROM generate_series(1, 40) AS n`);
    const job = jobOf(await world.run(), "enrich_customers");
    expect(job).toMatchObject({ records_read: 40, records_sent: 1, records_duplicate: 39, requests: 1 });
    expect(await world.value("SELECT count(*) FROM person_data.enrichment")).toBe("40");
    expect(await world.value("SELECT count(DISTINCT api_request_id) FROM person_data.enrichment")).toBe("1");
  });

  test("takes the fresh answer of an equal row that came later, without asking", async () => {
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
  test("says what the run then does, and changes nothing", async () => {
    const world = await startWorld({ rows: 500, config: configOf(resolveOnly) });
    const services = await world.services();
    const { jobs } = await planJobs(services, []);
    expect(await world.value("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'person_data%'")).toBe(
      "0",
    );
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
        records_waiting: 0,
        records_rejected_before_sending: job.records_rejected_before_sending,
        records_to_send: job.records_sent,
        calls: 1,
        estimated_billable: {
          low: 0,
          expected: job.records_sent,
          high: job.records_sent,
          basis: "no history: as if every record matched",
        },
        estimated_seconds: 1,
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
        basis: "no history: as if every record matched, 100 rows that wait for resolve_customers included",
      },
    });
    expect((await planJobs(services, ["enrich_customers"])).jobs).toMatchObject([
      { records_waiting: 100, calls: 0, estimated_billable: { expected: 0, basis: "nothing to send" } },
    ]);
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

describe("caps", () => {
  test("end a run as limited, and the next one goes on", async () => {
    const world = await startWorld({ rows: 200, config: configOf(enrichOnly) });
    const first = await world.run({ maxRecords: 60 });
    expect(first).toMatchObject({ status: "limited" });
    expect(exitCodeOf(first, null)).toBe(0);
    expect(first.jobs[0]).toMatchObject({ limited_by: "max_records", records_sent: 60 });
    expect(first.jobs.map(unaccountedRows)).toEqual([0]);
    expect(first.jobs[0]?.records_remaining).toBeGreaterThan(100);

    world.configure(configOf(enrichOnly.replace(" }", ", max_records_per_run: 60 }")));
    const second = await world.run({ maxRecords: 100 });
    expect(second.jobs[0]).toMatchObject({
      status: "limited",
      limited_by: "max_records_per_run",
      records_sent: 60,
    });

    world.configure(configOf(enrichOnly));
    const third = await world.run();
    expect(third.status).toBe("succeeded");
    expect(await repeats(world)).toEqual({ received: 0, billed: 0 });
    expect(await world.value("SELECT count(*) FROM person_data.enrichment")).toBe(
      await world.value("SELECT count(*) - (SELECT count(*) FROM person_data.reject) FROM crm.customers"),
    );
  });

  test("take the rows first that order_by puts first", async () => {
    const world = await startWorld({
      rows: 200,
      config: configOf(enrichOnly).replace("key: id", "key: id\n    order_by: id DESC"),
    });
    await world.run({ maxRecords: 20 });
    expect(
      Number(await world.value("SELECT min(source_key::int) FROM person_data.enrichment")),
    ).toBeGreaterThan(170);
  });

  test("of zero send nothing", async () => {
    const world = await startWorld({ rows: 30, config: configOf(enrichOnly) });
    const report = await world.run({ maxRecords: 0 });
    expect(report.jobs[0]).toMatchObject({
      status: "limited",
      limited_by: "max_records",
      records_sent: 0,
      requests: 0,
    });
    expect(report.jobs.map(unaccountedRows)).toEqual([0]);
  });
});

describe("the user's word", () => {
  const config = configOf(enrichOnly, "confirm_above: { records: 50, ratio: 0.2 }");

  test("is wanted when a later run is due for unusually much", async () => {
    const world = await startWorld({ rows: 300, config });
    expect((await world.run()).status).toBe("succeeded");
    await world.rows("UPDATE crm.customers SET street = '1 Main St' WHERE id <= 200");
    const stopped = await world.run();
    expect(exitCodeOf(stopped, null)).toBe(3);
    expect(stopped.jobs[0]).toMatchObject({
      status: "limited",
      limited_by: "confirmation",
      records_sent: 0,
      requests: 0,
      error: { code: "confirmation" },
    });
    expect(stopped.jobs[0]?.error?.message).toMatch(
      /^enrich_customers: more is due than confirm_above allows, \d+ rows or \d\d % of the input: .* run again with --yes to agree\.$/,
    );
    expect(stopped.jobs.map(unaccountedRows)).toEqual([0]);

    const asked: string[] = [];
    const answer = (word: boolean) => async (question: string) => {
      asked.push(question);
      return word;
    };
    expect((await world.run({ confirm: answer(false) })).jobs[0]).toMatchObject({
      limited_by: "confirmation",
      records_sent: 0,
    });
    expect(asked[0]).toMatch(/Go on\?$/);
    const agreed = await world.run({ confirm: answer(true) });
    expect(agreed.jobs[0]?.status).toBe("succeeded");
    expect(agreed.jobs[0]?.records_sent).toBeGreaterThan(150);
    expect(asked).toHaveLength(2);
  });

  test("given by --yes holds for the runs that go on after a limit", async () => {
    const world = await startWorld({ rows: 300, config });
    await world.run();
    await world.rows("UPDATE crm.customers SET street = '1 Main St'");
    const first = await world.run({ yes: true, maxRecords: 100 });
    expect(first.jobs[0]).toMatchObject({ limited_by: "max_records", records_sent: 100 });
    const second = await world.run({ maxRecords: 100 });
    expect(second.jobs[0]).toMatchObject({ limited_by: "max_records", records_sent: 100 });
    expect((await world.run()).status).toBe("succeeded");
  });

  test("is wanted for --resend, which sends every record again", async () => {
    const world = await startWorld({ rows: 40, config });
    const sent = (await world.run()).jobs[0]?.records_sent;
    expect((await world.run({ resend: true })).jobs[0]).toMatchObject({
      limited_by: "confirmation",
      records_sent: 0,
    });
    const again = await world.run({ resend: true, yes: true });
    expect(again.jobs[0]).toMatchObject({ status: "succeeded", records_sent: sent });
    expect(again.jobs.map(unaccountedRows)).toEqual([0]);
    expect(
      await world.value(
        "SELECT count(*) FROM person_data.enrichment WHERE _run_id = $$" + again.run_id + "$$",
      ),
    ).not.toBe("0");
  });
});

describe("changed parameters", () => {
  const changed = configOf(enrichOnly.replace(" }", ", return_fields: [age, phones] }"));

  test("stop the run with count and cost until the user says what to do", async () => {
    const world = await startWorld({ rows: 60, config: configOf(enrichOnly) });
    await world.run();
    const answered = Number(await world.value("SELECT count(*) FROM person_data.enrichment"));
    world.configure(changed);
    const stopped = await world.run({ yes: true });
    expect(exitCodeOf(stopped, null)).toBe(3);
    expect(stopped.jobs[0]).toMatchObject({
      status: "limited",
      limited_by: "parameters_changed",
      requests: 0,
    });
    expect(stopped.jobs[0]?.error?.message).toContain(
      `the mapping or the request's parameters have changed since ${answered} rows got an answer; nothing was sent`,
    );
    expect(stopped.jobs.map(unaccountedRows)).toEqual([0]);
  });

  test("that are kept cost nothing", async () => {
    const world = await startWorld({ rows: 60, config: configOf(enrichOnly) });
    await world.run();
    world.configure(changed);
    expect((await world.run({ acceptParameters: "keep" })).jobs[0]).toMatchObject({
      status: "succeeded",
      records_sent: 0,
    });
    expect((await world.run()).jobs[0]).toMatchObject({ status: "succeeded", records_sent: 0 });
  });

  test("that are bought again send every record, once", async () => {
    const world = await startWorld({ rows: 60, config: configOf(enrichOnly) });
    const sent = (await world.run()).jobs[0]?.records_sent;
    world.configure(changed);
    expect((await world.run({ acceptParameters: "resend" })).jobs[0]).toMatchObject({
      status: "succeeded",
      records_sent: sent,
    });
    expect((await world.run()).jobs[0]).toMatchObject({ status: "succeeded", records_sent: 0 });
  });
});

test("the status tells how each job fared, also before the first run", async () => {
  const world = await startWorld({ rows: 60 });
  const before = await readStatus(await world.services());
  expect(before).toMatchObject({ service_host: null, tables: [] });
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
  expect(threeJobs).toContain("enrich_customers");
});
