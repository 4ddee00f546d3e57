import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import type { Clock } from "../../src/clock.ts";
import type { HttpClient } from "../../src/extract/http-client.ts";
import type { JobServices } from "../../src/jobs/services.ts";
import type { Db } from "../../src/load/db/db.ts";
import { runScheduler } from "../../src/operate/scheduler.ts";
import { parseFaults } from "../../packages/sandbox/src/start-sandbox.ts";
import { configOf, fastClock, startWorld, type World } from "../jobs/world.ts";
import { seededRandom } from "../support/seeded-random.ts";

const HOUR_MS = 3_600_000;
const LOCK_LIFE_MS = 500;

// Berlin skips the hour of its slot on 29 March 2026, Sydney has the hour of its slot twice on 5 April.
const JOBS = `
  resolve_customers: { type: resolve, input: customers, schedule: "30 2 * * *", timezone: Europe/Berlin }
  enrich_customers: { type: enrich, input: customers, pid_from: resolve_customers, refresh_after: 90d,
    schedule: "30 2 * * *", timezone: Australia/Sydney }`;

/** A promise that never settles. */
const never = new Promise<never>(() => {});

/** A scheduler that can be killed: afterwards none of its requests is answered. */
interface Mortal {
  kill(): void;
  /** Resolves when it waits for the next check. */
  readonly idle: () => Promise<void>;
  wake(): void;
  /** Number of requests to warehouse and service before it is killed. */
  dieAfter: number;
  readonly isDead: () => boolean;
}

function untilDeath<Target extends object>(target: Target, ask: () => boolean): Target {
  return new Proxy(target, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      return (...args: unknown[]): unknown => {
        if (!ask()) return never;
        const result: unknown = Reflect.apply(member, target, args);
        return result instanceof Promise ? result.then((value) => (ask() ? value : never)) : result;
      };
    },
  });
}

function startMortal(services: JobServices, name: string, signal: AbortSignal): Mortal {
  let isDead = false;
  let idle = Promise.withResolvers<void>();
  let woken = Promise.withResolvers<void>();
  const mortal: Mortal = {
    kill() {
      isDead = true;
      idle.resolve();
    },
    idle: () => idle.promise,
    wake() {
      idle = Promise.withResolvers<void>();
      const { resolve } = woken;
      woken = Promise.withResolvers<void>();
      resolve();
    },
    dieAfter: Number.POSITIVE_INFINITY,
    isDead: () => isDead,
  };
  const ask = () => {
    mortal.dieAfter -= 1;
    if (mortal.dieAfter <= 0) mortal.kill();
    return !isDead;
  };
  const mine: JobServices = {
    ...services,
    db: untilDeath<Db>(services.db, ask),
    http: untilDeath<HttpClient>(services.http, ask),
    signal,
  };
  let runs = 0;
  void runScheduler({
    services: () => mine,
    by: { owner: name, host: "here", pid: process.pid },
    newRunId: () => `${name}-${++runs}`,
    signal,
    nextWake() {
      const { promise } = woken;
      idle.resolve();
      return isDead ? never : promise;
    },
  });
  return mortal;
}

/**
 * Runs nights from a given day with two schedulers, faults, and regular kills: expects that no night is missed
 * or doubled, and that the tables equal those of one run. Returns the number of kills.
 */
export async function runNights(given: {
  readonly nights: number;
  readonly from: string;
  readonly killEvery: number;
}): Promise<number> {
  const { nights: count, from, killEvery } = given;
  const random = seededRandom(90);
  const world = await startWorld({
    rows: 30,
    people: 2000,
    config: configOf(JOBS),
    faults: parseFaults("503:0.08,429:0.04,cut_before:0.02"),
  });
  let nowMs = Date.parse(`${from}T00:00:00Z`);
  const moments = fastClock(4);
  const startedMs = moments.now();
  // Nights pass on the test's command; within a night, waits take a short time.
  const clock: Clock = { ...moments, now: () => nowMs + moments.now() - startedMs };
  await world.warehouse.migrate();
  const stop = new AbortController();
  let born = 0;
  const start = async () => {
    const services = await world.services();
    const config = { ...services.config, lockLifeMs: LOCK_LIFE_MS };
    return startMortal({ ...services, clock, config }, `scheduler-${++born}`, stop.signal);
  };
  const schedulers = [await start(), await start()];
  await Promise.all(schedulers.map((scheduler) => scheduler.idle()));

  let kills = 0;
  let nextKillMs = nowMs + 2 * 24 * HOUR_MS;
  const startMs = nowMs;
  for (const endMs = nowMs + count * 24 * HOUR_MS; nowMs < endMs; ) {
    nowMs = Math.min(endMs, nowMs + Math.floor((0.5 + random.next()) * HOUR_MS));
    if (nowMs >= nextKillMs) {
      nextKillMs += killEvery * 24 * HOUR_MS;
      for (const scheduler of schedulers) scheduler.dieAfter = random.below(60);
    }
    if (random.chance(0.1)) await changeSomebody(world, random.below(30));
    if (random.chance(0.5)) schedulers.reverse();
    for (const scheduler of schedulers) scheduler.wake();
    await Promise.all(schedulers.map((scheduler) => scheduler.idle()));
    for (const [i, scheduler] of schedulers.entries()) {
      if (!scheduler.isDead()) continue;
      kills += 1;
      for (const other of schedulers) other.dieAfter = Number.POSITIVE_INFINITY;
      // No night may pass until its locks expire.
      await delay(2 * LOCK_LIFE_MS + 100);
      schedulers[i] = await start();
    }
  }
  for (const scheduler of schedulers) scheduler.wake();
  await Promise.all(schedulers.map((scheduler) => scheduler.idle()));
  stop.abort(new Error("the test is over"));

  for (const [job, zone] of [
    ["resolve_customers", "Europe/Berlin"],
    ["enrich_customers", "Australia/Sydney"],
  ] as const) {
    const slots = await world.rows(
      `SELECT slot, status, run_id FROM person_data_state.schedule_slot WHERE job = '${job}' AND slot <> 'first' ORDER BY due_at`,
    );
    // Sydney's first slot was over at the start, and its last one is a day earlier by our clock.
    const firstDayMs = startMs + (job === "enrich_customers" ? 24 * HOUR_MS : 0);
    const expected = Array.from({ length: count }, (_, night) => {
      const day = new Date(firstDayMs + night * 24 * HOUR_MS).toISOString().slice(0, 10);
      return `${day}T02:30 ${zone}`;
    });
    expect(slots.map(({ slot }) => slot)).toEqual(expected);
    expect(new Set(slots.map(({ status }) => status))).toEqual(new Set(["succeeded"]));
    // One run each; an interrupted night was resumed under its id.
    expect(new Set(slots.map(({ run_id }) => run_id)).size).toBe(count);
    const runs = await world.value(
      `SELECT count(DISTINCT run_id) FROM person_data_ops.sync_run WHERE job = '${job}' AND status <> 'succeeded'`,
    );
    expect(runs).toBe("0");
  }
  // The tables after a final check with nothing to do.
  const last = await world.run();
  expect(
    last.jobs.map(({ status, records_sent, records_read, records_unchanged }) => ({
      status,
      records_sent,
      isUnchanged: records_read === records_unchanged,
    })),
  ).toEqual(Array.from({ length: 2 }, () => ({ status: "succeeded", records_sent: 0, isUnchanged: true })));
  return kills;
}

/** Renames a customer, so that a record is due in the next night. */
async function changeSomebody(world: World, row: number): Promise<void> {
  await world.rows(
    `UPDATE crm.customers SET city = city || 'x' WHERE id = (SELECT id FROM crm.customers ORDER BY id OFFSET ${row} LIMIT 1)`,
  );
}
