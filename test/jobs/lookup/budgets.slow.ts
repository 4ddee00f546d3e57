import { beforeAll, describe, expect, test } from "vitest";
import { MIDNIGHT_TIMEOUT_MS, passMidnight } from "../../support/held-day.ts";
import { systemClock } from "../../../src/clock.ts";
import { planJobs } from "../../../src/jobs/report/plan.ts";
import { exitCodeOf } from "../../../src/jobs/job.ts";
import { parseFaults } from "../../../packages/sandbox/src/start-sandbox.ts";
import { configOf, jobOf, repeats, startWorld, threeJobs, unaccountedRows, type World } from "../world.ts";

beforeAll(passMidnight, MIDNIGHT_TIMEOUT_MS);

const enrichOnly = "\n  enrich_customers: { type: enrich, input: customers }";

/** A daily budget of records, with a confirmation above 20. */
const more = (perDay: number) =>
  `confirm_above: { records: 20, ratio: 0.1 }\nbudgets: { enrich: { per_day: ${perDay}, per_month: 1000 } }`;

/** Records in calls that the sandbox executed, answered or not. */
async function carriedOut(world: World): Promise<number> {
  // Answer of the sandbox's controls.
  const { recent } = (await world.control("/ledger")) as {
    recent: { endpoint: string; status: number; records: number }[];
  };
  return recent
    .filter(({ endpoint, status }) => endpoint.endsWith("/v2/enrich") && status === 200)
    .reduce((sum, { records }) => sum + records, 0);
}
const sentIn = (world: World) =>
  world.value(
    "SELECT sum(records_sent) FROM person_data_ops.api_call WHERE records_matched IS NOT NULL OR possibly_billed",
  );
const counted = (world: World, period: string) =>
  world.value(
    `SELECT records_reserved FROM person_data_state.budget_use WHERE budget = 'enrich' AND period = '${period}'`,
  );

describe("a budget", () => {
  test("ends a run as limited, and the next one resumes without asking", async () => {
    const world = await startWorld({ rows: 300, config: configOf(enrichOnly, more(1000)) });
    expect((await world.run()).status).toBe("succeeded");
    const before = Number(await counted(world, "day"));
    await world.rows("UPDATE crm.customers SET street = '1 Main St'");

    world.configure(configOf(enrichOnly, more(before + 50)));
    const first = await world.run({ yes: true });
    expect(first.jobs[0]).toMatchObject({ status: "limited", limited_by: "budget_day", records_sent: 50 });
    expect(first.jobs[0]?.error).toBeUndefined();
    expect(exitCodeOf(first, null)).toBe(0);
    expect(first.jobs.map(unaccountedRows)).toEqual([0]);
    expect(await counted(world, "day")).toBe(String(before + 50));
    expect(world.notes.at(-1)).toMatch(/: 50 records to send in 1 call, .* rows remaining \(budget_day\)$/);

    const second = await world.run();
    expect(second.jobs[0]).toMatchObject({
      status: "limited",
      limited_by: "budget_day",
      records_sent: 0,
      requests: 0,
    });
    expect(second.jobs.map(unaccountedRows)).toEqual([0]);
    expect(world.notes.at(-1)).toMatch(/nothing to send; .* rows remaining \(budget_day\)$/);

    world.configure(configOf(enrichOnly, more(before + 120)));
    expect((await world.run()).jobs[0]).toMatchObject({ limited_by: "budget_day", records_sent: 70 });
    world.configure(configOf(enrichOnly, more(5000)));
    expect((await world.run()).status).toBe("succeeded");
    expect(await repeats(world)).toMatchObject({ received: 0 });
  });

  test("stops one job, and the others continue", async () => {
    const budgets = "budgets: { resolve: { per_day: 40 }, enrich: { per_month: 10 } }";
    const world = await startWorld({ rows: 100, config: configOf(threeJobs, budgets) });
    const report = await world.run();
    expect(report.status).toBe("limited");
    expect(exitCodeOf(report, null)).toBe(0);
    expect(jobOf(report, "resolve_customers")).toMatchObject({ limited_by: "budget_day", records_sent: 40 });
    expect(jobOf(report, "validate_customers").status).toBe("succeeded");
    expect(jobOf(report, "enrich_customers")).toMatchObject({ limited_by: "budget_month", records_sent: 10 });
    expect(report.jobs.map(unaccountedRows)).toEqual([0, 0, 0]);
  });

  test("is shared by all jobs of a type, and by runs at the same time", async () => {
    const jobs = `${enrichOnly}\n  enrich_again: { type: enrich, input: customers, return_fields: [age] }`;
    const world = await startWorld({
      rows: 200,
      config: configOf(jobs, "budgets: { enrich: { per_day: 110 } }"),
    });
    const reports = await Promise.all([
      world.run({ jobs: ["enrich_customers"] }),
      world.run({ jobs: ["enrich_again"] }),
    ]);
    const sent = reports.flatMap((report) => report.jobs.map((job) => job.records_sent));
    expect(sent.reduce((sum, records) => sum + records, 0)).toBe(110);
    expect(reports.map((report) => report.jobs[0]?.limited_by)).toEqual(["budget_day", "budget_day"]);
    expect(await sentIn(world)).toBe("110");
    expect(await counted(world, "day")).toBe("110");
  });

  test("grants a call what others have left since the selection, and no more is sent", async () => {
    const world = await startWorld({ rows: 300, config: configOf(enrichOnly, more(1000)) });
    await world.run();
    await world.rows("UPDATE crm.customers SET street = '1 Main St'");
    const report = await world.run({
      confirm: async () => {
        await world.rows(
          "UPDATE person_data_state.budget_use SET records_reserved = 980 WHERE period = 'day'",
        );
        return true;
      },
    });
    expect(report.jobs[0]).toMatchObject({ limited_by: "budget_day", records_sent: 20, requests: 1 });
    expect(await counted(world, "day")).toBe("1000");
  });

  test("counts every attempt that may have been charged, under any faults", async () => {
    const world = await startWorld({
      rows: 600,
      faults: parseFaults("413=20,429_bare:0.1,500:0.05,cut_body:0.1,reply_lost:0.1,missing:0.1,503:0.1"),
      config: configOf(enrichOnly.replace(" }", ", max_records_per_run: 400 }")),
    });
    let requests = 0;
    // A resumed run, recognized by its id, has only the rest of its cap.
    for (let i = 0; i < 2; i++) {
      const report = await world.run({ runId: "one" });
      expect(report.jobs.map(unaccountedRows)).toEqual([0]);
      requests += report.jobs[0]?.requests ?? 0;
      const used = Number(await counted(world, "day"));
      expect(used).toBeLessThanOrEqual(400);
      expect(used).toBeGreaterThanOrEqual(await carriedOut(world));
      expect(await sentIn(world)).toBe(String(used));
    }
    expect(await counted(world, "day")).toBe("400");
    expect(requests).toBeGreaterThan(20);
    expect(await world.value("SELECT count(*) FROM person_data_ops.api_call WHERE settled_at IS NULL")).toBe(
      "0",
    );
  });

  test("that ends before left-out records are retried sends them in the next run", async () => {
    const world = await startWorld({
      rows: 200,
      faults: parseFaults("missing:1"),
      config: configOf(enrichOnly),
    });
    const plan = await planJobs(await world.services(), []);
    // All are sent exactly once.
    const first = await world.run({ maxRecords: plan.jobs[0]?.records_to_send ?? 0, yes: true });
    expect(jobOf(first, "enrich_customers")).toMatchObject({
      status: "limited",
      possibly_billed_twice: 0,
      records_rejected: 0,
    });
    await world.control("/faults", { faults: "" });
    const second = jobOf(await world.run({ yes: true }), "enrich_customers");
    expect(second.records_sent).toBeGreaterThan(0);
    expect(second.possibly_billed_twice).toBe(second.records_sent);
    expect(
      await world.value(
        "SELECT sum(records_in_doubt - records_possibly_billed_twice) FROM person_data_ops.api_call WHERE job = 'enrich_customers'",
      ),
    ).toBe("0");
  });
});

describe("a plan", () => {
  test("shows what the budget leaves, job after job", async () => {
    const jobs = `${enrichOnly}\n  enrich_again: { type: enrich, input: customers, return_fields: [age], after: enrich_customers }`;
    const world = await startWorld({
      rows: 100,
      config: configOf(jobs, "budgets: { enrich: { per_day: 120, per_month: 2000 } }"),
    });
    const { config, db } = await world.services();
    const fresh = await planJobs({ config, db, clock: systemClock }, []);
    expect(fresh.budgets).toEqual([
      { budget: "enrich", period: "day", limit: 120, used: 0, left: 120 },
      { budget: "enrich", period: "month", limit: 2000, used: 0, left: 2000 },
    ]);
    const [first, second] = fresh.jobs;
    const toSend = first?.records_to_send ?? 0;
    expect(toSend).toBeGreaterThan(80);
    expect(first).toMatchObject({ budget_left: 120, records_remaining: 0, limited_by: null });
    expect(second).toMatchObject({
      budget_left: 120 - toSend,
      records_to_send: 120 - toSend,
      limited_by: "budget_day",
    });
    const report = await world.run();
    expect(report.jobs.map((job) => job.records_sent)).toEqual([toSend, 120 - toSend]);
    const spent = await planJobs({ config, db, clock: systemClock }, []);
    expect(spent.budgets[0]).toEqual({ budget: "enrich", period: "day", limit: 120, used: 120, left: 0 });
    expect(spent.jobs[1]).toMatchObject({
      budget_left: 0,
      records_to_send: 0,
      limited_by: "budget_day",
      calls: 0,
    });
  });
});
