import { describe, expect, onTestFinished, test } from "vitest";
import { exitCodeOf } from "../../src/jobs/job.ts";
import { readStatus } from "../../src/jobs/report/status.ts";
import { systemClock } from "../../src/clock.ts";
import { openWarehouse } from "../support/bound-load.ts";
import type { Warehouse } from "../support/bound-load.ts";
import { configOf, jobOf, repeats, startWorld, unaccountedRows, type World } from "./world.ts";
import type { RunRef } from "../../src/load/runs/fence.ts";

const enrichOnly = configOf("\n  enrich_customers: { type: enrich, input: customers }");
const elsewhere = { host: "etl-2", pid: 4711, machine: null, processStart: null };

/** Another process's connection to the warehouse. */
function openAnother(world: World): Warehouse {
  const warehouse = openWarehouse({ url: world.url });
  onTestFinished(() => warehouse.close());
  return warehouse;
}

/** Holds a job like a process on another machine; optionally takes it over from a live holder. */
async function seize(world: World, job: string, takesOver = false): Promise<RunRef> {
  const request = {
    runId: "theirs",
    job,
    jobType: "enrich",
    shard: "0/1",
    process: elsewhere,
    lifeMs: 3_600_000,
  };
  const dead = takesOver ? (await world.warehouse.jobStatus(job)).holders : [];
  const reply = await world.warehouse.acquireLock({ ...request, dead });
  if (reply.kind === "refused") throw new Error(`${job} is locked`);
  return reply.run;
}

describe("a job that another process runs", () => {
  test("is reported with its holder, and every job of the chain is left", async () => {
    const world = await startWorld({ rows: 300 });
    await world.warehouse.migrate();
    await seize(world, "resolve_customers");
    const report = await world.run({ runId: "ours" });
    expect(report.status).toBe("locked");
    expect(exitCodeOf(report, null)).toBe(4);
    expect(report.jobs.map(({ job, status, error }) => [job, status, error?.code])).toEqual([
      ["resolve_customers", "locked", "locked"],
      ["validate_customers", "locked", "chain_locked"],
      ["enrich_customers", "locked", "chain_locked"],
    ]);
    expect(jobOf(report, "resolve_customers").error?.message).toMatch(
      /^Another process is running resolve_customers: run theirs \(process 4711 on etl-2\) since 2\S+Z\. Nothing was sent\. Run again with --wait to wait for it\. If that process hangs, end it: its lock expires at 2\S+Z without a heartbeat\.$/,
    );
    expect(jobOf(report, "enrich_customers").error?.message).toBe(
      "enrich_customers was left out, because another process runs resolve_customers, a job of the same run.",
    );
    expect(await world.value("SELECT count(*) FROM person_data_ops.sync_run")).toBe("0");
    expect(await world.value("SELECT count(*) FROM person_data_ops.api_call")).toBe("0");
  });

  test("leaves the jobs before it in the chain too", async () => {
    const world = await startWorld({ rows: 30 });
    await world.warehouse.migrate();
    await seize(world, "enrich_customers");
    const report = await world.run({ runId: "ours" });
    expect(exitCodeOf(report, null)).toBe(4);
    expect(report.jobs.map(({ job, status, error }) => [job, status, error?.code])).toEqual([
      ["resolve_customers", "locked", "chain_locked"],
      ["validate_customers", "locked", "chain_locked"],
      ["enrich_customers", "locked", "locked"],
    ]);
    expect(await world.value("SELECT count(*) FROM person_data_ops.api_call")).toBe("0");
  });

  test("is waited for no longer than asked", async () => {
    const world = await startWorld({ rows: 30, config: enrichOnly });
    await world.warehouse.migrate();
    await seize(world, "enrich_customers");
    const startedMs = performance.now();
    const report = await world.run({ waitMs: 1500 }, { clock: systemClock });
    expect(exitCodeOf(report, null)).toBe(4);
    expect(performance.now() - startedMs).toBeGreaterThan(1400);
    expect(performance.now() - startedMs).toBeLessThan(15_000);
  });

  test("is shown by status, with shard, run, host and times", async () => {
    const world = await startWorld({ rows: 1, config: enrichOnly });
    await world.warehouse.migrate();
    await seize(world, "enrich_customers");
    const { jobs } = await readStatus(await world.services());
    const instant = expect.stringMatching(/^2\S+Z$/);
    expect(jobs[0]?.held_by).toEqual([
      {
        shard: "0/1",
        run_id: "theirs",
        host: "etl-2",
        pid: 4711,
        since: instant,
        last_heartbeat_at: instant,
        expires_at: instant,
        is_expired: false,
      },
    ]);
  });

  test("is waited for, and its work is not repeated", async () => {
    const world = await startWorld({ rows: 800, config: enrichOnly, latencyMs: 100 });
    const [first, second] = await Promise.all([
      world.run({ runId: "first", waitMs: 600_000 }),
      world.run({ runId: "second", waitMs: 600_000 }, { db: openAnother(world).db }),
    ]);
    const jobs = [jobOf(first, "enrich_customers"), jobOf(second, "enrich_customers")];
    expect(jobs.map((job) => job.status)).toEqual(["succeeded", "succeeded"]);
    expect(jobs.filter((job) => job.records_sent === 0)).toHaveLength(1);
    expect(jobs.map(unaccountedRows)).toEqual([0, 0]);
    expect(await repeats(world)).toEqual({ received: 0, billed: 0 });
  });
});

test("all jobs by two processes at the same time: nothing is sent twice", async () => {
  const world = await startWorld({ rows: 800, latencyMs: 20 });
  const reports = await Promise.all([
    world.run({ runId: "first", waitMs: 600_000 }),
    world.run({ runId: "second", waitMs: 600_000 }, { db: openAnother(world).db }),
  ]);
  expect(reports.map((report) => report.status)).toEqual(["succeeded", "succeeded"]);
  expect(await repeats(world)).toEqual({ received: 0, billed: 0 });
  const sent = reports.map((report) => report.jobs.map((job) => job.records_sent));
  for (const job of [0, 1, 2]) expect(Math.min(...sent.map((counts) => counts[job] ?? -1))).toBe(0);
});

describe("a run that loses its job in the middle", () => {
  test("sends no more, ends as locked with exit code 4, and writes nothing from then on", async () => {
    const world = await startWorld({ rows: 6000, config: enrichOnly, latencyMs: 500 });
    const services = await world.services();
    const seen = Promise.withResolvers<void>();
    const advance = () => seen.resolve();
    const running = world.run({ runId: "ours" }, { progress: { ...services.progress, advance } });
    await seen.promise;
    await seize(world, "enrich_customers", true);
    const written = async () => [
      await world.rows("SELECT run_id, status, error, records_sent FROM person_data_ops.sync_run"),
      await world.rows("SELECT count(*), max(xmin::text::bigint) FROM person_data.enrichment"),
      await world.rows("SELECT count(*), max(xmin::text::bigint) FROM person_data_state.lookup_answer"),
      await world.rows("SELECT count(*), max(xmin::text::bigint) FROM person_data_ops.api_call"),
    ];
    const before = await written();
    expect(before[0]).toMatchObject([
      { run_id: "ours", status: "failed", error: "The process ended without closing this run." },
    ]);
    const report = await running;
    expect(await written()).toEqual(before);
    const job = jobOf(report, "enrich_customers");
    expect([job.status, job.error?.code, exitCodeOf(report, null)]).toEqual(["locked", "lock_lost", 4]);
    expect(job.records_sent).toBeLessThan(6000);
    expect(unaccountedRows(job)).toBe(0);
  });

  test("leaves the rest to the next run, which sends it", async () => {
    const world = await startWorld({ rows: 3000, config: enrichOnly, latencyMs: 500 });
    const services = await world.services();
    const seen = Promise.withResolvers<void>();
    const advance = () => seen.resolve();
    const running = world.run({ runId: "ours" }, { progress: { ...services.progress, advance } });
    await seen.promise;
    const theirs = await seize(world, "enrich_customers", true);
    await running;
    await world.warehouse.releaseLock(theirs);
    expect((await world.run()).status).toBe("succeeded");
    expect(
      await world.value(
        "SELECT count(*) FROM person_data_state.lookup_row JOIN person_data_state.lookup_answer USING (content)",
      ),
    ).toBe("3000");
  });
});

async function held(world: World): Promise<readonly object[]> {
  return world.rows("SELECT job, released_at IS NULL AS held FROM person_data_state.job_lock ORDER BY job");
}

describe("the lock of a job is released", () => {
  const released = [{ job: "enrich_customers", held: "f" }];

  test("when it has succeeded", async () => {
    const world = await startWorld({ rows: 20, config: enrichOnly });
    expect((await world.run()).status).toBe("succeeded");
    expect(await held(world)).toEqual(released);
  });

  test("when a limit has ended it", async () => {
    const world = await startWorld({ rows: 20, config: enrichOnly });
    expect((await world.run({ maxRecords: 1 })).status).toBe("limited");
    expect(await held(world)).toEqual(released);
  });

  test("when it has failed", async () => {
    const world = await startWorld({ rows: 20, config: enrichOnly });
    await world.warehouse.migrate();
    await world.rows("ALTER TABLE person_data_state.lookup_answer RENAME TO elsewhere");
    expect((await world.run()).status).toBe("failed");
    expect(await held(world)).toEqual(released);
  });

  test("when a signal has ended it", async () => {
    const world = await startWorld({ rows: 2000, config: enrichOnly, latencyMs: 200 });
    const stop = new AbortController();
    const { progress } = await world.services();
    const start = () => stop.abort();
    const report = await world.run({}, { signal: stop.signal, progress: { ...progress, start } });
    expect(report.status).toBe("interrupted");
    expect(await held(world)).toEqual(released);
  });

  test("when it did not start", async () => {
    const world = await startWorld({ rows: 20, config: enrichOnly });
    const report = await world.run({}, { signal: AbortSignal.abort() });
    expect(report.status).toBe("interrupted");
    expect(await held(world)).toEqual(released);
    expect(await world.rows("SELECT status FROM person_data_ops.sync_run")).toEqual([
      { status: "interrupted" },
    ]);
  });
});
