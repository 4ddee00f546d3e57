import { describe, expect, test } from "vitest";
import { FixConfigurationError } from "../../../src/errors.ts";
import { createLimiter } from "../../../src/extract/limits.ts";
import { exitCodeOf } from "../../../src/jobs/job.ts";
import { parseFaults } from "../../../packages/sandbox/src/start-sandbox.ts";
import {
  configOf,
  fastClock,
  jobOf,
  runWhileTableGoes,
  startWorld,
  threeJobs,
  unaccountedRows,
  type World,
} from "../world.ts";

const enrichOnly = "\n  enrich_customers: { type: enrich, input: customers }";

interface Ledger {
  readonly requests: number;
  readonly endpoints: Readonly<Record<string, { readonly billed: number; readonly records: number }>>;
  readonly contents: { readonly billed_more_than_once: number; readonly distinct_records: number };
}

async function ledgerOf(world: World): Promise<Ledger> {
  // Answer of the sandbox's controls.
  return (await world.control("/ledger")) as Ledger;
}

async function refusalOf(run: Promise<unknown>): Promise<FixConfigurationError> {
  try {
    await run;
  } catch (error) {
    if (error instanceof FixConfigurationError) return error;
    throw error;
  }
  throw new Error("The run was not refused.");
}

/** Existing schemas of ours. */
async function ourSchemas(world: World): Promise<string | null> {
  return world.value("SELECT string_agg(nspname, ',') FROM pg_namespace WHERE nspname LIKE 'person_data%'");
}

describe("before anything is touched", () => {
  test("every missing table and column of all inputs is reported, and nothing is created or called", async () => {
    const config = configOf(threeJobs)
      .replace("first_name: first_name", "first_name: given_name")
      .replace("city: city", "city: town");
    const world = await startWorld({ rows: 5, unmigrated: true, config });
    const error = await refusalOf(world.run());
    expect(error.problems.map((problem) => problem.path)).toHaveLength(2);
    expect(JSON.stringify(error.problems)).toContain("given_name");
    expect(JSON.stringify(error.problems)).toContain("town");
    expect(await ourSchemas(world)).toBe(null);
    expect((await ledgerOf(world)).requests).toBe(0);
  });

  test("an unknown job is refused with the name that was meant", async () => {
    const world = await startWorld({ rows: 5, unmigrated: true });
    const error = await refusalOf(world.run({ jobs: ["enrich_costumers"] }));
    expect(error.problems).toEqual([
      {
        path: "jobs.enrich_costumers",
        message: "does not exist",
        hint: "did you mean enrich_customers?",
      },
    ]);
    expect(await ourSchemas(world)).toBe(null);
  });

  test("a service other than the one that filled the warehouse is refused, with what to do", async () => {
    const world = await startWorld({ rows: 5, config: configOf(enrichOnly) });
    await world.run();
    const calls = (await ledgerOf(world)).requests;
    const { port } = new URL(world.serviceUrl);
    world.serviceUrl = `http://localhost:${port}`;
    const error = await refusalOf(world.run());
    expect(error.code).toBe("another_service");
    expect(error.problems[0]).toMatchObject({
      path: "service.base_url",
      hint: expect.stringContaining(`migrate --accept-service localhost:${port}`),
    });
    expect((await ledgerOf(world)).requests).toBe(calls);
  });
});

test("a query over our own tables is verified after they are made", async () => {
  const jobs = `${enrichOnly}
  enrich_again: { type: enrich, input: relatives, after: enrich_customers }`;
  const config = configOf(jobs).replace(
    "inputs:",
    `inputs:
  relatives:
    sql: SELECT relative_service_pid AS pid FROM person_data.person_relative WHERE relative_service_pid IS NOT NULL GROUP BY 1
    key: pid
    fields: { service_pid: pid }`,
  );
  const world = await startWorld({ rows: 60, people: 500, config });
  const report = await world.run();
  expect(report.status).toBe("succeeded");
  expect(jobOf(report, "enrich_again").records_matched).toBeGreaterThan(10);
  expect(report.jobs.map(unaccountedRows)).toEqual([0, 0]);

  const wrong = await startWorld({ rows: 5, config: config.replace("AS pid", "AS number") });
  expect((await refusalOf(wrong.run())).problems.length).toBeGreaterThan(0);
  expect((await ledgerOf(wrong)).requests).toBe(0);
});

describe("a job that fails", () => {
  test("lets the others run, but not those that come after it", async () => {
    const world = await startWorld({ rows: 40, faults: parseFaults("forbidden@validate_emails") });
    const report = await world.run();
    expect(report.status).toBe("failed");
    expect(exitCodeOf(report, null)).toBe(1);
    expect(report.jobs.map((job) => [job.job, job.status, job.error?.code])).toEqual([
      ["resolve_customers", "succeeded", undefined],
      ["validate_customers", "failed", "forbidden"],
      ["enrich_customers", "skipped", "dependency_failed"],
    ]);
    expect(report.jobs.map(unaccountedRows)).toEqual([0, 0, 0]);
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
    expect(report.jobs.map((job) => [job.status, job.error?.code])).toEqual([
      ["failed", expect.any(String)],
      ["skipped", "run_stopped"],
      ["skipped", "run_stopped"],
    ]);
    expect(report.jobs[0]).toMatchObject({ records_sent: 0, records_remaining: expect.any(Number) });
    expect(report.jobs.map(unaccountedRows)).toEqual([0, 0, 0]);
    expect((await ledgerOf(world)).requests).toBeLessThanOrEqual(4);
  });

  test("for records without an answer reports them, and the next run sends them", async () => {
    const world = await startWorld({
      rows: 700,
      config: configOf(enrichOnly),
      faults: parseFaults("500@enrich#1-2"),
    });
    // One call after the other, so that both failures hit the same batch.
    const services = { ...(await world.services()) };
    const report = await world.run({}, { limiter: { ...services.limiter, concurrency: 1 } });
    const job = jobOf(report, "enrich_customers");
    expect(job).toMatchObject({
      status: "failed",
      error: { code: "unanswered" },
      possibly_billed_twice: 500,
    });
    expect(job.error?.message).toMatch(
      /^enrich_customers: 500 records got no answer and stay due for the next run\. /,
    );
    expect(unaccountedRows(job)).toBe(0);
    // Rows equal to those without an answer.
    expect(job.records_remaining).toBe(5);
    expect(await world.value("SELECT due FROM person_data_ops.input_coverage")).not.toBe("0");
    const next = jobOf(await world.run(), "enrich_customers");
    expect(next).toMatchObject({ status: "succeeded", records_sent: 500 });
  });

  test("beyond max_reject_ratio keeps what was answered", async () => {
    const world = await startWorld({
      rows: 100,
      config: configOf(enrichOnly.replace(" }", ", max_reject_ratio: 0.02 }")),
      faults: parseFaults("poison=Poison"),
    });
    await world.rows("UPDATE crm.customers SET first_name = 'Poison' WHERE id <= 5");
    const report = await world.run();
    const job = jobOf(report, "enrich_customers");
    expect(job).toMatchObject({ status: "failed", error: { code: "too_many_rejects" } });
    expect(job.records_rejected - job.records_rejected_before_sending).toBeGreaterThanOrEqual(4);
    expect(unaccountedRows(job)).toBe(0);
    expect(Number(await world.value("SELECT count(*) FROM person_data.enrichment"))).toBeGreaterThan(85);
    expect(await world.value("SELECT count(*) FROM person_data.reject WHERE stage = 'send'")).toBe("5");
    expect(
      await world.value(
        "SELECT string_agg(message || coalesce(details::text, ''), ' ') FROM person_data.reject",
      ),
    ).not.toContain("Poison");
  });
});

/** Records counted in today's budget of enrich jobs. */
const counted = (world: World) =>
  world.value(
    "SELECT records_reserved FROM person_data_state.budget_use WHERE budget = 'enrich' AND period = 'day'",
  );

describe("a limit of the service", () => {
  test.each(["insufficient_record_capacity", "insufficient_credits"])(
    "(402 %s) keeps what was answered and uses up what is left, exit code 3",
    async (code) => {
      const world = await startWorld({ rows: 2000, config: configOf(enrichOnly) });
      await world.control("/capacity", { records: 700, code });
      const report = await world.run();
      const job = jobOf(report, "enrich_customers");
      expect(exitCodeOf(report, null)).toBe(3);
      expect(job).toMatchObject({ status: "limited", limited_by: "credits", error: { code: "credits" } });
      expect(unaccountedRows(job)).toBe(0);
      const { billed = 0 } = (await ledgerOf(world)).endpoints["POST /v2/enrich"] ?? {};
      expect(job.records_matched).toBe(billed);
      expect(billed).toBeGreaterThan(500);
      expect(job.records_remaining).toBeGreaterThan(1000);
      // Refused records are released.
      expect(await counted(world)).toBe(String(job.records_sent));

      await world.control("/capacity", { records: null });
      const rest = jobOf(await world.run(), "enrich_customers");
      expect(rest.status).toBe("succeeded");
      expect(rest.records_sent + job.records_sent).toBe(
        Number(
          await world.value("SELECT count(*) FROM person_data_state.lookup_answer WHERE call_id IS NOT NULL"),
        ),
      );
      expect((await ledgerOf(world)).contents.billed_more_than_once).toBe(0);
    },
  );

  test("behind 429 is detected, exit code 3; nothing of it counts, and the other jobs continue", async () => {
    const jobs = `\n  enrich_first: { type: enrich, input: customers }\n  validate_customers: { type: validate_emails, input: customers }`;
    const world = await startWorld({
      rows: 1200,
      config: configOf(jobs),
      faults: parseFaults("429=300@enrich#2-"),
    });
    // Minutes of refusals in seconds.
    const clock = fastClock(300);
    const limiter = createLimiter({ concurrency: 4, requestsPerSecond: null, clock });
    const report = await world.run({}, { clock, limiter });
    expect(exitCodeOf(report, null)).toBe(3);
    const job = jobOf(report, "enrich_first");
    expect(job).toMatchObject({ status: "limited", limited_by: "quota", error: { code: "quota" } });
    expect(report.jobs.map(unaccountedRows)).toEqual([0, 0]);
    expect(job.records_sent).toBe(500);
    expect(await counted(world)).toBe("500");
    expect(jobOf(report, "validate_customers").status).toBe("succeeded");
  });
});

describe("a signal", () => {
  test("keeps what is in flight, and the next run sends the rest and nothing twice", async () => {
    // One call at a time, so that most are pending when the first is committed.
    const config = configOf(threeJobs).replace("concurrency: 4", "concurrency: 1");
    const world = await startWorld({ rows: 5000, config, latencyMs: 100 });
    const stop = new AbortController();
    const services = await world.services();
    const report = await world.run(
      {},
      {
        signal: stop.signal,
        progress: {
          ...services.progress,
          advance(job) {
            if (job === "enrich_customers") stop.abort();
          },
        },
      },
    );
    expect(exitCodeOf(report, "SIGTERM")).toBe(143);
    expect(report.jobs.map((job) => job.status)).toEqual(["succeeded", "succeeded", "interrupted"]);
    expect(report.jobs.map(unaccountedRows)).toEqual([0, 0, 0]);
    const job = jobOf(report, "enrich_customers");
    expect(job.error).toBe(undefined);
    expect(job.records_remaining).toBeGreaterThan(500);
    expect(job.records_sent).toBeGreaterThan(500);
    expect(await world.value("SELECT count(*) FROM person_data.enrichment")).not.toBe("0");

    const next = jobOf(await world.run(), "enrich_customers");
    expect(next.status).toBe("succeeded");
    expect((await ledgerOf(world)).contents.billed_more_than_once).toBe(0);
  });

  test("before a job begins leaves it untouched", async () => {
    const world = await startWorld({ rows: 40 });
    const report = await world.run({}, { signal: AbortSignal.abort() });
    expect(report.jobs.map((job) => job.status)).toEqual(["interrupted", "interrupted", "interrupted"]);
    expect(exitCodeOf(report, "SIGINT")).toBe(130);
    expect((await ledgerOf(world)).requests).toBe(0);
  });
});

describe("a warehouse that fails while answers come in", () => {
  test("ends the job with a clear message and without a value in it", async () => {
    const world = await startWorld({ rows: 6000, config: configOf(enrichOnly), latencyMs: 50 });
    const report = await runWhileTableGoes(world, "person_phone");
    const job = jobOf(report, "enrich_customers");
    expect(job.status).toBe("failed");
    expect(job.error?.code).toBe("warehouse_refused");
    expect(unaccountedRows(job)).toBe(0);
    expect(job.records_matched).toBeGreaterThan(0);
    await world.rows("ALTER TABLE person_data.elsewhere RENAME TO person_phone");
    expect(jobOf(await world.run(), "enrich_customers").status).toBe("succeeded");
    expect(await world.value("SELECT count(*) FROM person_data.enrichment")).toBe(
      await world.value(
        "SELECT count(*) FROM person_data_state.lookup_row JOIN person_data_state.lookup_answer USING (content) WHERE outcome <> 'rejected'",
      ),
    );
  });
});
