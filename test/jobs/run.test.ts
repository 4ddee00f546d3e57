import { describe, expect, test } from "vitest";
import { parseFaults } from "../../packages/sandbox/src/start-sandbox.ts";
import { exitCodeOf, type JobReport, statusOf, zeroCounters } from "../../src/jobs/job.ts";
import { readStatus } from "../../src/jobs/report/status.ts";
import {
  configOf,
  enrichOnly,
  jobOf,
  requestsOf,
  resolveOnly,
  startWorld,
  unaccountedRows,
} from "./world.ts";

describe("a night", () => {
  test("is in sync_run and the ledger as reported", async () => {
    const world = await startWorld({ rows: 100, config: configOf(resolveOnly) });
    const job = jobOf(await world.run({ runId: "night-1" }), "resolve_customers");
    const [row = {}] = await world.rows("SELECT * FROM person_data_ops.sync_run");
    const counters = Object.entries(job).filter(([name]) => name in zeroCounters);
    expect(row).toMatchObject({
      ...Object.fromEntries(counters.map(([name, count]) => [name, String(count)])),
      run_id: "night-1",
      job: "resolve_customers",
      job_type: "resolve",
      shard: "0/1",
      status: "succeeded",
      limited_by: null,
      error: null,
      records_due: String(job.records_sent + job.records_duplicate),
    });
    const [calls] = await world.rows(`SELECT count(*) AS requests, sum(records_sent) AS records_sent,
      sum(records_matched) AS records_matched FROM person_data_ops.api_call`);
    const { requests, records_sent, records_matched } = row;
    expect(calls).toEqual({ requests, records_sent, records_matched });
    expect(await readStatus(await world.services())).toMatchObject({
      service_host: `sandbox:7@${new URL(world.sandbox.url).host}`,
      jobs: [{ enabled: true, open_rejects: { not_resolvable: job.records_rejected } }],
    });
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
});

describe("before anything is touched", () => {
  test("every missing column of all inputs is reported, and nothing is created or called", async () => {
    const config = configOf(resolveOnly)
      .replace("first_name: first_name", "first_name: given_name")
      .replace("last_name: last_name", "last_name: surname");
    const world = await startWorld({ rows: 5, unmigrated: true, config });
    await expect(world.run()).rejects.toMatchObject({
      name: "FixConfigurationError",
      problems: [
        expect.objectContaining({ message: expect.stringContaining("given_name") }),
        expect.objectContaining({ message: expect.stringContaining("surname") }),
      ],
    });
    expect(await world.value("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'person_data%'")).toBe(
      "0",
    );
    expect(await requestsOf(world)).toBe(0);
  });
});

test("a query over our own tables is verified after they are made", async () => {
  const jobs = `${enrichOnly}\n  enrich_again: { type: enrich, input: relatives, after: enrich_customers }`;
  const config = configOf(jobs).replace(
    "inputs:",
    `inputs:
  relatives:
    sql: SELECT relative_service_pid AS pid FROM person_data.person_relative WHERE relative_service_pid IS NOT NULL GROUP BY 1
    key: pid
    fields: { service_pid: pid }`,
  );
  const world = await startWorld({ rows: 60, people: 500, unmigrated: true, config });
  const report = await world.run();
  expect([report.status, ...report.jobs.map(unaccountedRows)]).toEqual(["succeeded", 0, 0]);
  expect(jobOf(report, "enrich_again").records_matched).toBeGreaterThan(10);

  world.configure(config.replace("AS pid", "AS number"));
  await expect(world.run()).rejects.toMatchObject({ name: "FixConfigurationError" });
});

describe("a job that fails", () => {
  test("lets the others run, but not those that come after it", async () => {
    const world = await startWorld({ rows: 40, faults: parseFaults("forbidden@validate_emails") });
    const report = await world.run();
    expect([report.status, exitCodeOf(report, null)]).toEqual(["failed", 1]);
    expect(report.jobs.map((job) => [job.status, job.error?.code, unaccountedRows(job)])).toEqual([
      ["succeeded", undefined, 0],
      ["failed", "forbidden", 0],
      ["skipped", "dependency_failed", 0],
    ]);
    expect(jobOf(report, "enrich_customers").error?.message).toBe(
      "enrich_customers was skipped because validate_customers did not succeed.",
    );
    const failures = world.logged.filter(({ level }) => level === "error");
    expect(failures.map(({ event }) => event)).toEqual(["job_failed"]);
    expect(await world.rows("SELECT job, status FROM person_data_ops.sync_run ORDER BY job")).toEqual([
      { job: "enrich_customers", status: "skipped" },
      { job: "resolve_customers", status: "succeeded" },
      { job: "validate_customers", status: "failed" },
    ]);
  });

  test("for a rejected key ends the whole run", async () => {
    const world = await startWorld({ rows: 40, faults: parseFaults("revoked") });
    const report = await world.run();
    expect(report.jobs.map((job) => [job.status, job.error?.code, unaccountedRows(job)])).toEqual([
      ["failed", "key_rejected", 0],
      ["skipped", "run_stopped", 0],
      ["skipped", "run_stopped", 0],
    ]);
    expect(await requestsOf(world)).toBeLessThanOrEqual(4);
  });

  test("for an unknown reason says what was being done", async () => {
    const world = await startWorld({ rows: 20, config: configOf(enrichOnly) });
    await world.run();
    await world.rows("ALTER TABLE person_data_state.lookup_row DROP COLUMN missing_since CASCADE");
    const failing = jobOf(await world.run(), "enrich_customers");
    expect([failing.status, failing.error?.code]).toEqual(["failed", "42703"]);
    expect(failing.error?.message).toMatch(
      /^The warehouse \(Postgres at [^)]+\) reported an unexpected error while reading the input \(SQLSTATE 42703, undefined column\)\. .*run `person-etl migrate`/,
    );
  });
});

test("a large due set needs the user's agreement, which a question or --yes gives", async () => {
  const config = configOf(enrichOnly, "confirm_above: { records: 50, ratio: 0.2 }");
  const world = await startWorld({ rows: 120, config });
  expect((await world.run()).status).toBe("succeeded");
  await world.rows("UPDATE crm.customers SET street = '1 Main St' WHERE id <= 90");
  const stopped = await world.run();
  expect(exitCodeOf(stopped, null)).toBe(3);
  const unsent = { status: "limited", limited_by: "confirmation", records_sent: 0, requests: 0 };
  expect(stopped.jobs).toMatchObject([{ ...unsent, error: { code: "confirmation" } }]);
  expect(stopped.jobs[0]?.error?.message).toMatch(
    /^enrich_customers: more is due than confirm_above allows: \d+ rows, \d\d% of the input; .* run again with --yes to confirm\.$/,
  );
  expect(stopped.jobs.map(unaccountedRows)).toEqual([0]);
  const asked: string[] = [];
  const answer = (word: boolean) => async (question: string) => {
    asked.push(question);
    return word;
  };
  expect((await world.run({ confirm: answer(false) })).jobs).toMatchObject([unsent]);
  expect(asked).toEqual([expect.stringMatching(/Continue\?$/)]);
  const agreed = jobOf(await world.run({ confirm: answer(true) }), "enrich_customers");
  expect([agreed.status, agreed.records_sent > 60]).toEqual(["succeeded", true]);
});

test("a run that waits for confirmation of parameters has rejected nothing and covers nothing", async () => {
  const world = await startWorld({ rows: 60, config: configOf(enrichOnly) });
  await world.run();
  const coverage = () => world.rows("SELECT * FROM person_data_ops.input_coverage");
  const before = await coverage();
  await world.rows("INSERT INTO crm.customers (id, first_name) VALUES (900, ' '), (901, NULL)");
  world.configure(configOf(enrichOnly.replace(" }", ", include_premium_fields: true }")));
  const { jobs } = await world.run();
  expect(jobs).toMatchObject([
    {
      limited_by: "parameters_changed",
      records_read: 62,
      records_rejected: 0,
      records_rejected_before_sending: 0,
      records_duplicate: 0,
      records_sent: 0,
    },
  ]);
  expect(jobs.map(unaccountedRows)).toEqual([0]);
  expect(await coverage()).toEqual(before);
});

test("a resend that is retried under its run id buys each record once", async () => {
  const world = await startWorld({ rows: 60, config: configOf(enrichOnly) });
  await world.run();
  const resend = { resend: true, yes: true, runId: "task-7" };
  const first = jobOf(await world.run(resend), "enrich_customers");
  expect(first.records_sent).toBeGreaterThan(40);
  const retried = jobOf(await world.run(resend), "enrich_customers");
  expect([retried.status, retried.records_sent]).toEqual(["succeeded", 0]);
  const other = jobOf(await world.run({ ...resend, runId: "task-8" }), "enrich_customers");
  expect(other.records_sent).toBe(first.records_sent);
});

/** Rows that left erase their people once three runs missed them over at least a day. */
test("on_missing: erase spares people whom another row names, and never erases many at once", async () => {
  const config = configOf(enrichOnly).replace("key: id", "key: id\n    on_missing: erase");
  const world = await startWorld({ rows: 60, config });
  await world.rows(`INSERT INTO crm.customers SELECT id + 1000, first_name, last_name, email, work_email, phone, linkedin,
    street, city, state, zip, updated_at FROM crm.customers WHERE id = 2`);
  await world.run();
  const people = (rows: string) =>
    world.value(`SELECT count(DISTINCT service_pid) FROM person_data.person JOIN crm.pids USING (service_pid)
      WHERE source_key IN (${rows})`);
  await world.rows("CREATE TABLE crm.pids AS SELECT source_key, service_pid FROM person_data.enrichment");
  const before = await people("'2'");
  await world.rows("DELETE FROM crm.customers WHERE id <= 3");
  for (let night = 1; night <= 4; night++) {
    expect((await world.run()).status).toBe("succeeded");
    await world.rows(
      "UPDATE person_data_state.lookup_row SET missing_since = missing_since - interval '1 day'",
    );
  }
  expect([await people("'1', '3'"), await people("'2'")]).toEqual(["0", before]);

  for (const left of ["id > 30", "true"]) {
    await world.rows(`DELETE FROM crm.customers WHERE ${left}`);
    const known = await world.value("SELECT count(*) FROM person_data_state.lookup_row");
    const end = { status: "limited", limited_by: "missing_rows", error: { code: "missing_rows" } };
    expect((await world.run({ yes: true })).jobs).toMatchObject([end]);
    expect(await world.value("SELECT count(*) FROM person_data_state.lookup_row")).toBe(known);
  }
});

type Ending = Pick<JobReport, "status"> & Partial<Pick<JobReport, "limited_by">>;

const failed: Ending = { status: "failed" };
const skipped: Ending = { status: "skipped" };
const locked: Ending = { status: "locked" };
const interrupted: Ending = { status: "interrupted" };
const succeeded: Ending = { status: "succeeded" };
const limited = (by: NonNullable<Ending["limited_by"]>): Ending => ({ status: "limited", limited_by: by });
const [credits, cap] = [limited("credits"), limited("max_records_per_run")];

test.each<readonly [JobReport["status"], number, readonly Ending[]]>([
  ["succeeded", 0, []],
  ["succeeded", 0, [succeeded, succeeded]],
  ["limited", 0, [succeeded, cap]],
  ["limited", 0, [limited("max_records"), limited("budget_day")]],
  ...(["credits", "quota", "parameters_changed", "confirmation"] as const).map(
    (by) => ["limited", 3, [cap, limited(by), succeeded]] as const,
  ),
  ["locked", 4, [locked, credits]],
  ["interrupted", 130, [interrupted, locked, credits]],
  ["failed", 1, [failed, skipped, interrupted, locked, credits]],
  ["failed", 1, [skipped]],
])("a run is %s with exit code %i after %j", (status, exitCode, endings) => {
  const jobs = endings.map((ending, i) => ({
    job: `job_${i}`,
    type: "enrich",
    seconds: 1,
    ...zeroCounters,
    ...ending,
  }));
  expect(statusOf(jobs)).toBe(status);
  expect(exitCodeOf({ status, run_id: "r", jobs }, "SIGINT")).toBe(exitCode);
  const terminated = exitCodeOf({ status, run_id: "r", jobs }, "SIGTERM");
  expect(terminated).toBe(exitCode === 130 ? 143 : exitCode);
});
