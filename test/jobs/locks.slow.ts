import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { LockLostError } from "../../src/errors.ts";
import { type HeldJob, holdJob } from "../../src/jobs/hold-job.ts";
import { exitCodeOf } from "../../src/jobs/job.ts";
import { readStatus } from "../../src/jobs/report/status.ts";
import { openWarehouse } from "../support/bound-load.ts";
import { openDoor } from "../support/door.ts";
import { configOf, enrichOnly, jobOf, repeats, startWorld, unaccountedRows, type World } from "./world.ts";

const config = configOf(enrichOnly);
const wanted = { job: "enrich_customers", jobType: "enrich", shard: "0/1" };

/** Takes a job's lock like a process on another machine, as if holders were dead. */
async function seize({ warehouse }: World, job = wanted.job): Promise<void> {
  const dead = (await warehouse.jobStatus(job)).holders;
  const process = { host: "etl-2", pid: 4711, machine: null, processStart: null };
  const request = { ...wanted, runId: "theirs", job, process, lifeMs: 3_600_000, dead };
  expect((await warehouse.acquireLock(request)).kind).toBe("held");
}

/** A process with its own connection to the warehouse and this lock lifetime. */
async function openRunner(world: World, lifeMs: number, url = world.url) {
  const warehouse = openWarehouse({ url });
  onTestFinished(() => warehouse.close());
  const services = await world.services();
  const short = { ...services.config, lockLifeMs: lifeMs };
  return { ...services, config: short, warehouse, db: warehouse.db, clock: systemClock };
}

async function hold(runner: Awaited<ReturnType<typeof openRunner>>, runId: string): Promise<HeldJob> {
  const reply = await holdJob(runner, { ...wanted, runId }, { waitMs: 0 });
  if (reply.kind === "refused") throw new Error(reply.message);
  onTestFinished(() => reply.held.release());
  return reply.held;
}

/** Waits up to half a minute for a condition. */
async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (let waitedMs = 0; !(await isSo()); waitedMs += 20) {
    if (waitedMs > 30_000) throw new Error("It never happened.");
    await delay(20);
  }
}

const isExpired = async ({ warehouse }: World) =>
  (await warehouse.jobStatus(wanted.job)).holders[0]?.isExpired;

describe("the lock of a job", () => {
  test("is kept by heartbeats for as long as it takes, and its release ends them", async () => {
    const world = await startWorld({ rows: 1 });
    const runner = await openRunner(world, 6000);
    const { signal, release } = await hold(runner, "first");
    await delay(8000);
    const second = await holdJob(runner, { ...wanted, runId: "second" }, { waitMs: 0 });
    expect([second.kind, signal.aborted]).toEqual(["refused", false]);
    await release();
    const heartbeat = "SELECT heartbeat_at FROM person_data_state.job_lock";
    const last = await world.value(heartbeat);
    await delay(1000);
    expect(await world.value(heartbeat)).toBe(last);
    expect(await world.value("SELECT released_at >= heartbeat_at FROM person_data_state.job_lock")).toBe("t");
  });

  test("outlives an outage longer than its lifetime if no other process took it", async () => {
    const world = await startWorld({ rows: 1 });
    const door = await openDoor(world.url, { isOpen: true });
    const runner = await openRunner(world, 300, door.url);
    const { signal, run } = await hold(runner, "first");
    door.shut();
    await until(() => world.logged.some(({ event }) => event === "heartbeat_failed"));
    await until(async () => (await isExpired(world)) === true);
    expect(signal.aborted).toBe(false);
    door.open();
    await runner.warehouse.beginRun(run);
    await until(async () => (await isExpired(world)) === false);
  });

  test("is lost to a process that took it during an outage: nothing is committed", async () => {
    const world = await startWorld({ rows: 1 });
    const door = await openDoor(world.url, { isOpen: true });
    const runner = await openRunner(world, 300, door.url);
    const { signal, run } = await hold(runner, "first");
    door.shut();
    await until(async () => (await isExpired(world)) === true);
    const heir = await hold(await openRunner(world, 60_000), "second");
    door.open();
    await expect(runner.warehouse.beginRun(run)).rejects.toThrow(LockLostError);
    await until(() => signal.aborted);
    expect(signal.reason).toBeInstanceOf(LockLostError);
    expect(heir.run.epoch).toBe(run.epoch + 1);
    const fields = { job: "enrich_customers", shard: "0/1", epoch: run.epoch };
    expect(world.logged).toContainEqual({ level: "warn", event: "lock_lost", fields });
    expect(world.logged).toContainEqual(expect.objectContaining({ level: "warn", event: "lock_taken_over" }));
  });
});

test("a run stopped before it starts is recorded as interrupted", async () => {
  const world = await startWorld({ rows: 20, config });
  expect((await world.run({}, { signal: AbortSignal.abort() })).status).toBe("interrupted");
  expect(await world.rows("SELECT status FROM person_data_ops.sync_run")).toEqual([
    { status: "interrupted" },
  ]);
  expect(await world.value("SELECT released_at IS NOT NULL FROM person_data_state.job_lock")).toBe("t");
});

describe("a job that another process runs", () => {
  test.each(["resolve_customers", "enrich_customers"])(
    "is reported with its holder, and every job of the chain is left (%s)",
    async (held) => {
      const world = await startWorld({ rows: 30 });
      await seize(world, held);
      const report = await world.run({ runId: "ours" });
      expect([report.status, exitCodeOf(report, null)]).toEqual(["locked", 4]);
      expect(report.jobs.map(({ job, status, error }) => [job, status, error?.code])).toEqual(
        ["resolve_customers", "validate_customers", "enrich_customers"].map((job) => [
          job,
          "locked",
          job === held ? "locked" : "chain_locked",
        ]),
      );
      expect(jobOf(report, held).error?.message).toMatch(
        /^Another process is running \w+: run theirs \(process 4711 on etl-2\) since 2\S+Z\. Nothing was sent\. Run again with --wait to wait for it\. If that process hangs, end it: its lock expires at 2\S+Z without a heartbeat\.$/,
      );
      expect(jobOf(report, "validate_customers").error?.message).toBe(
        `validate_customers was skipped, because another process is running ${held}, a job of the same run.`,
      );
      expect(await world.value("SELECT count(*) FROM person_data_ops.sync_run")).toBe("0");
      expect(await world.value("SELECT count(*) FROM person_data_ops.api_call")).toBe("0");
    },
  );

  test("is waited for no longer than asked, with one note, and status shows its holder", async () => {
    const world = await startWorld({ rows: 30, config });
    await seize(world);
    const startedMs = performance.now();
    const report = await world.run({ waitMs: 3500 }, { clock: systemClock });
    expect(exitCodeOf(report, null)).toBe(4);
    const waitedMs = performance.now() - startedMs;
    expect(waitedMs > 3400 && waitedMs < 20_000).toBe(true);
    expect(world.notes).toEqual([
      expect.stringMatching(
        /^enrich_customers: waiting for another process: run theirs \(process 4711 on etl-2\) since 2.+Z; its lock expires at 2.+Z unless renewed$/,
      ),
    ]);
    const { jobs } = await readStatus(await world.services());
    const instant = expect.stringMatching(/^2\S+Z$/);
    const since = { since: instant, last_heartbeat_at: instant, expires_at: instant, is_expired: false };
    const holder = { shard: "0/1", run_id: "theirs", host: "etl-2", pid: 4711 };
    expect(jobs[0]?.held_by).toEqual([{ ...holder, ...since }]);
  });
});

test("a run that waits gets the job once it is free, and repeats none of its work", async () => {
  const world = await startWorld({ rows: 800, config, latencyMs: 100 });
  const other = openWarehouse({ url: world.url });
  onTestFinished(() => other.close());
  const reports = await Promise.all([
    world.run({ waitMs: 600_000 }),
    world.run({ waitMs: 600_000 }, { db: other.db }),
  ]);
  const jobs = reports.map((report) => jobOf(report, "enrich_customers"));
  expect(jobs.map((job) => [job.status, unaccountedRows(job)])).toEqual([
    ["succeeded", 0],
    ["succeeded", 0],
  ]);
  expect(jobs.filter((job) => job.records_sent === 0)).toHaveLength(1);
  expect(await repeats(world)).toEqual({ received: 0, billed: 0 });
});

test("a signal ends a run that waits, which has sent nothing", async () => {
  const world = await startWorld({ rows: 30, config });
  await seize(world);
  const stop = new AbortController();
  const services = { clock: systemClock, signal: stop.signal };
  const waiting = world.run({ waitMs: 600_000 }, services);
  await until(() => world.notes.length > 0);
  stop.abort();
  const report = await waiting;
  expect([report.status, exitCodeOf(report, "SIGTERM")]).toEqual(["interrupted", 143]);
  expect(await world.value("SELECT count(*) FROM person_data_ops.api_call")).toBe("0");
});

test("a run that loses its job in the middle ends as locked, sends no more, and writes nothing from then on", async () => {
  const world = await startWorld({ rows: 6000, config, latencyMs: 500 });
  const services = await world.services();
  const seen = Promise.withResolvers<void>();
  const advance = () => seen.resolve();
  const running = world.run({ runId: "ours" }, { progress: { ...services.progress, advance } });
  await seen.promise;
  await seize(world);
  const written = async () => [
    await world.rows("SELECT run_id, status, error, records_sent FROM person_data_ops.sync_run"),
    await world.rows("SELECT count(*), max(xmin::text::bigint) FROM person_data.enrichment"),
    await world.rows("SELECT count(*), max(xmin::text::bigint) FROM person_data_state.lookup_answer"),
    await world.rows("SELECT count(*), max(xmin::text::bigint) FROM person_data_ops.api_call"),
  ];
  const before = await written();
  const error = "The process ended without closing this run.";
  expect(before[0]).toMatchObject([{ run_id: "ours", status: "failed", error }]);
  const report = await running;
  expect(await written()).toEqual(before);
  const job = jobOf(report, "enrich_customers");
  expect([job.status, job.error?.code, exitCodeOf(report, null)]).toEqual(["locked", "lock_lost", 4]);
  expect(job.records_sent).toBeLessThan(6000);
  expect(unaccountedRows(job)).toBe(0);
});
