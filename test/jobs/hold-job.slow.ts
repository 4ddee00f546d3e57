import { setTimeout as delay } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { LockLostError } from "../../src/errors.ts";
import { type HeldJob, holdJob } from "../../src/jobs/hold-job.ts";
import { openWarehouse } from "../support/bound-load.ts";
import type { Warehouse } from "../support/bound-load.ts";
import { openDoor } from "../support/door.ts";
import { startWorld, type World } from "./world.ts";

const wanted = { runId: "run", job: "enrich_customers", jobType: "enrich", shard: "0/1" };

/** A process with its own connection to the warehouse and this lock lifetime. */
async function openRunner(world: World, lifeMs: number, url = world.url) {
  const warehouse = openWarehouse({
    url,
  });
  onTestFinished(() => warehouse.close());
  const services = await world.services();
  const config = { ...services.config, lockLifeMs: lifeMs };
  return { ...services, config, warehouse, db: warehouse.db, clock: systemClock };
}

async function hold(runner: Awaited<ReturnType<typeof openRunner>>, runId: string): Promise<HeldJob> {
  const reply = await holdJob(runner, { ...wanted, runId }, { waitMs: 0 });
  if (reply.kind === "refused") throw new Error(reply.message);
  onTestFinished(() => reply.held.release());
  return reply.held;
}

/** Takes the job over from its holder, as if that process were dead. */
async function seize(warehouse: Warehouse): Promise<void> {
  const dead = (await warehouse.jobStatus(wanted.job)).holders;
  const process = { host: "elsewhere", pid: 1, machine: null, processStart: null };
  const reply = await warehouse.acquireLock({ ...wanted, runId: "thief", process, lifeMs: 60_000, dead });
  expect(reply.kind).toBe("held");
}

/** Waits up to half a minute for a condition; returns its last result. */
async function becomes(isSo: () => boolean | Promise<boolean>): Promise<boolean> {
  for (let waitedMs = 0; waitedMs < 30_000; waitedMs += 20) {
    if (await isSo()) return true;
    await delay(20);
  }
  return false;
}

/** True if the job's lock has expired. */
async function hasExpired({ warehouse }: World): Promise<boolean | undefined> {
  return (await warehouse.jobStatus(wanted.job)).holders[0]?.isExpired;
}

async function prepare(): Promise<World> {
  const world = await startWorld({ rows: 1 });
  await world.warehouse.migrate();
  return world;
}

test("heartbeats keep a job for as long as it takes, and its release ends them", async () => {
  const world = await prepare();
  const runner = await openRunner(world, 6000);
  const { signal, release } = await hold(runner, "first");
  await delay(8000);
  expect(await holdJob(runner, { ...wanted, runId: "second" }, { waitMs: 0 })).toMatchObject({
    kind: "refused",
  });
  expect(signal.aborted).toBe(false);
  await release();
  const heartbeat = "SELECT heartbeat_at FROM person_data_state.job_lock";
  const last = await world.value(heartbeat);
  await delay(1000);
  expect(await world.value(heartbeat)).toBe(last);
  expect(await world.value("SELECT released_at >= heartbeat_at FROM person_data_state.job_lock")).toBe("t");
});

test("a job that another process took over stops at the next heartbeat", async () => {
  const world = await prepare();
  const { signal, run } = await hold(await openRunner(world, 400), "first");
  await seize(world.warehouse);
  expect(await becomes(() => signal.aborted)).toBe(true);
  expect(signal.reason).toBeInstanceOf(LockLostError);
  expect(world.logged).toContainEqual({
    level: "warn",
    event: "lock_lost",
    fields: { job: "enrich_customers", shard: "0/1", epoch: run.epoch },
  });
});

test("an outage longer than the lock's lifetime costs nothing if no other process took the job", async () => {
  const world = await prepare();
  const door = await openDoor(world.url, { isOpen: true });
  const runner = await openRunner(world, 300, door.url);
  const { signal, run } = await hold(runner, "first");
  door.shut();
  expect(await becomes(() => world.logged.some(({ event }) => event === "heartbeat_failed"))).toBe(true);
  expect(await becomes(async () => (await hasExpired(world)) === true)).toBe(true);
  expect(signal.aborted).toBe(false);
  door.open();
  await runner.warehouse.beginRun(run);
  expect(await becomes(async () => (await hasExpired(world)) === false)).toBe(true);
});

test("after an outage during which another process took the job, nothing is committed", async () => {
  const world = await prepare();
  const door = await openDoor(world.url, { isOpen: true });
  const runner = await openRunner(world, 300, door.url);
  const { signal, run } = await hold(runner, "first");
  door.shut();
  expect(await becomes(async () => (await hasExpired(world)) === true)).toBe(true);
  const heir = await hold(await openRunner(world, 60_000), "second");
  door.open();
  await expect(runner.warehouse.beginRun(run)).rejects.toThrow(LockLostError);
  expect(await becomes(() => signal.aborted)).toBe(true);
  expect(signal.reason).toBeInstanceOf(LockLostError);
  expect(heir.run.epoch).toBe(run.epoch + 1);
  expect(world.logged).toContainEqual(expect.objectContaining({ level: "warn", event: "lock_taken_over" }));
});

test("a waiting process gets the job when it is free, and logs once that it waits", async () => {
  const world = await prepare();
  const { release } = await hold(await openRunner(world, 10_000), "first");
  const waiting = holdJob(
    await openRunner(world, 10_000),
    { ...wanted, runId: "second" },
    { waitMs: 600_000 },
  );
  await delay(4000);
  expect(world.notes).toEqual([
    expect.stringMatching(
      /^enrich_customers: waiting for another process: run first \(process \d+ on .+\) since 2.+Z; its lock expires at 2.+Z unless renewed$/,
    ),
  ]);
  await release();
  const reply = await waiting;
  expect(reply).toMatchObject({ kind: "held", held: { run: { runId: "second", epoch: 2 } } });
  if (reply.kind === "held") await reply.held.release();
  expect(world.notes).toHaveLength(1);
});

test("a signal ends the wait", async () => {
  const world = await prepare();
  await hold(await openRunner(world, 60_000), "first");
  const stop = new AbortController();
  const runner = { ...(await openRunner(world, 60_000)), signal: stop.signal };
  const waiting = holdJob(runner, { ...wanted, runId: "second" }, { waitMs: 600_000 });
  setTimeout(() => stop.abort(new Error("enough")), 300);
  await expect(waiting).rejects.toThrow("enough");
});
