import { createTask, setLogger } from "node-cron";
import { describeForLog, StopRunError } from "../errors.ts";
import { runJobs } from "../jobs/run.ts";
import type { RunReport } from "../jobs/job.ts";
import { type ScheduledJob, scheduledJobs } from "../jobs/job-selection.ts";
import { type JobServices, plainRun } from "../jobs/services.ts";
import {
  claimSlots,
  endSlots,
  type GrantedSlot,
  type KnownSlot,
  newestSlots,
  renewSlots,
  type SchedulerProcess,
  type SlotEnd,
  watchJobs,
} from "../load/runs/slots.ts";
import { lastSlot, nextSlot, type Slot } from "../schedule/schedule.ts";

interface SchedulerOptions {
  /** Current services; they change after a reload. */
  readonly services: () => JobServices;
  readonly by: SchedulerProcess;
  /** Resolves when schedules should be checked; rejects on abort. */
  readonly nextWake: (signal: AbortSignal) => Promise<void>;
  /** Called at the start of each round, while nothing runs; may replace the services. */
  readonly beforeRound?: () => Promise<void>;
  readonly newRunId: () => string;
  /** Called after each check without due slots; failures are logged. */
  readonly idle?: (services: JobServices) => Promise<void>;
  /** Called after a run; handles its own failures. */
  readonly afterRun?: (services: JobServices, report: RunReport) => Promise<void>;
  /** Called after a run that failed and is not retried. */
  readonly afterFailure?: (services: JobServices, error: unknown, runId: string) => Promise<void>;
  /** Stops the scheduler: calls in flight finish, no more start. */
  readonly signal: AbortSignal;
}

/** Runs jobs on their schedules, one run at a time, until aborted. */
export async function runScheduler(options: SchedulerOptions): Promise<void> {
  const { signal, services, by } = options;
  const watched = new Set<string>();
  const openEnds: OpenEnd[] = [];
  let nextCheckMs = 0;
  let checkedConfig: object | null = null;

  /** Checks schedules once; true if everything due ran, so that the next check follows at once. */
  async function round(): Promise<boolean> {
    await options.beforeRound?.();
    const now = services();
    const { config, clock, db, log } = now;
    if (checkedConfig !== config) [nextCheckMs, checkedConfig] = [0, config];
    if (clock.now() < nextCheckMs && openEnds.length === 0) return false;
    await recordEnds(now, by, openEnds);
    const jobs = scheduledJobs(config);
    const fresh = jobs.map(({ name }) => name).filter((name) => !watched.has(name));
    if (fresh.length > 0) {
      await watchJobs(db, fresh, new Date(clock.now()).toISOString(), by);
      for (const name of fresh) watched.add(name);
    }
    const known = await newestSlots(db);
    const found = findDue(jobs, known, clock.now());
    nextCheckMs = found.nextCheckMs;
    if (found.due.length === 0) return false;
    const runId = options.newRunId();
    const claims = found.due.map(({ job, key, atMs }) => ({
      job: job.name,
      slot: key,
      dueAt: new Date(atMs).toISOString(),
      runId,
    }));
    const lifeMs = 2 * config.lockLifeMs;
    const granted = await claimSlots(db, claims, by, lifeMs);
    const { ours, early } = inOrder(found.due, granted);
    if (early.length > 0) {
      await endSlots(
        db,
        by.owner,
        early.map(({ job, slot }) => ({ job, slot, status: null })),
      );
    }
    // Other schedulers may run the rest; check again.
    nextCheckMs = 0;
    if (ours.length === 0) return false;
    log.info({ slots: ours.map(({ job, slot }) => `${job} ${slot}`) }, "slots_claimed");
    const heartbeat = keepAlive(now, by, lifeMs);
    let isGivenBack = false;
    try {
      const broken = brokenBefore(found.due, known);
      for (const [id, slots] of Map.groupBy(ours, (slot) => slot.runId)) {
        const ends = await runSlots(options, now, found.due, { id, slots, broken });
        isGivenBack ||= ends.some(({ status }) => status === null);
        openEnds.push(...ends);
        await recordEnds(now, by, openEnds);
      }
    } finally {
      await heartbeat.stop();
    }
    return !isGivenBack;
  }

  while (!signal.aborted) {
    let isMoreDue = false;
    try {
      isMoreDue = await round();
    } catch (error) {
      // The next check may reach the warehouse again; until then the log and the pages report it.
      services().log.warn(describeForLog(error), "look_failed");
      nextCheckMs = 0;
    }
    if (isMoreDue || signal.aborted) continue;
    try {
      await options.idle?.(services());
    } catch (error) {
      services().log.warn(describeForLog(error), "look_failed");
    }
    try {
      await options.nextWake(signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}

interface OpenEnd {
  readonly job: string;
  readonly slot: string;
  readonly status: SlotEnd | null;
}

/** Records ends of slots, including those that earlier attempts failed to record. */
async function recordEnds({ db }: JobServices, by: SchedulerProcess, ends: OpenEnd[]): Promise<void> {
  if (ends.length === 0) return;
  await endSlots(db, by.owner, ends);
  ends.length = 0;
}

/** Splits granted slots: those whose predecessor went to another scheduler are early. */
function inOrder(
  due: readonly DueSlot[],
  granted: readonly GrantedSlot[],
): { readonly ours: readonly GrantedSlot[]; readonly early: readonly GrantedSlot[] } {
  const names = new Set(granted.map(({ job }) => job));
  const lost = new Set(due.map(({ job }) => job.name).filter((name) => !names.has(name)));
  const waits = (slot: GrantedSlot) =>
    due.find(({ job }) => job.name === slot.job)?.job.after.some((name) => lost.has(name)) ?? false;
  return {
    ours: granted.filter((slot) => !waits(slot)),
    early: granted.filter((slot) => waits(slot)),
  };
}

/** Predecessors of due jobs that failed since those jobs last ran. */
export function brokenBefore(due: readonly DueSlot[], known: readonly KnownSlot[]): readonly string[] {
  const lastOf = new Map(known.map((slot) => [slot.job, slot]));
  const isBroken = (name: string, since: number) => {
    const last = lastOf.get(name);
    return last && ["failed", "skipped"].includes(last.status) && Date.parse(last.dueAt) > since;
  };
  return due.flatMap(({ job }) => {
    const since = Date.parse(lastOf.get(job.name)?.lastDueAt ?? "");
    return job.after.filter((name) => isBroken(name, since));
  });
}

/** Runs the jobs of some slots under one run id; returns the ends of the slots. */
async function runSlots(
  options: SchedulerOptions,
  services: JobServices,
  due: readonly DueSlot[],
  run: { readonly id: string; readonly slots: readonly GrantedSlot[]; readonly broken: readonly string[] },
): Promise<readonly OpenEnd[]> {
  const jobs = run.slots.flatMap(({ job }) => due.find((slot) => slot.job.name === job)?.job ?? []);
  const names = new Set(jobs.flatMap(({ name, companions }) => [name, ...companions]));
  const ends = (status: (job: string) => SlotEnd | null) =>
    run.slots.map(({ job, slot }) => ({ job, slot, status: status(job) }));
  try {
    const report = await runJobs(services, {
      // Waits for no job: a slot of a held chain is released and claimed again every few seconds.
      ...plainRun,
      jobs: [...names],
      runId: run.id,
      failedBefore: run.broken.filter((name) => !names.has(name)),
    });
    await options.afterRun?.(services, report);
    return ends((name) => slotEndOf(report, name));
  } catch (error) {
    if (services.signal.aborted) return ends(() => null);
    services.log.error({ run_id: run.id, ...describeForLog(error) }, "run_failed");
    // Temporary: the slot is retried. All other failures need a fix by the user.
    if (error instanceof StopRunError) return ends(() => null);
    await options.afterFailure?.(services, error, run.id);
    return ends(() => "failed");
  }
}

/** Status of a job's slot; null: to be resumed, after a signal or because another process holds the job. */
function slotEndOf({ jobs }: RunReport, name: string): SlotEnd | null {
  const status = jobs.find(({ job }) => job === name)?.status;
  if (status === undefined || status === "running") return null;
  return status === "interrupted" || status === "locked" ? null : status;
}

/** Renews the scheduler's slots until stopped. */
function keepAlive(
  { db, clock, log }: JobServices,
  { owner }: SchedulerProcess,
  lifeMs: number,
): { readonly stop: () => Promise<void> } {
  const stopped = new AbortController();
  const beat = async (): Promise<void> => {
    for (;;) {
      await clock.sleep(lifeMs / 4, stopped.signal);
      try {
        await renewSlots(db, owner, lifeMs);
      } catch (error) {
        log.warn(describeForLog(error), "slot_heartbeat_failed");
      }
    }
  };
  // Ends only on stop, when the aborted sleep rejects.
  const beating = beat().catch(() => {});
  return {
    async stop() {
      stopped.abort();
      await beating;
    },
  };
}

interface DueSlot extends Slot {
  readonly job: ScheduledJob;
}

/**
 * Starts an alarm, which wakes a scheduler every minute and on `ring`. node-cron only wakes the scheduler every UTC minute, so that clock changes can't confuse it:
 * `src/schedule` computes the slots.
 */
export async function startAlarm() {
  // Its warnings go to the console; a late minute is harmless.
  setLogger({ info() {}, warn() {}, error() {}, debug() {} });
  let hasRung = false;
  let rung = Promise.withResolvers<void>();
  const ring = () => {
    hasRung = true;
    rung.resolve();
  };
  const task = createTask("* * * * *", ring, { timezone: "UTC", suppressMissedWarning: true });
  await task.start();
  return {
    /** Resolves at the next wake-up, or at once if one came since the last wait. Rejects with the signal's reason. */
    async next(signal: AbortSignal): Promise<void> {
      signal.throwIfAborted();
      const stopped = Promise.withResolvers<never>();
      const stop = () => stopped.reject(signal.reason);
      signal.addEventListener("abort", stop, { once: true });
      try {
        if (!hasRung) await Promise.race([rung.promise, stopped.promise]);
      } finally {
        signal.removeEventListener("abort", stop);
        hasRung = false;
        rung = Promise.withResolvers();
      }
    },
    ring,
    async close() {
      await task.destroy();
    },
  };
}

/** Maximum delay after which a missed slot still runs. */
const CATCH_UP_MS = 24 * 3_600_000;

/**
 * Finds the due slots: of each job the last pending one, unless it is too old, held, or waits for another job; each job after
 * those it depends on. No slot becomes due before `nextCheckMs`, which is Infinity if nothing is scheduled.
 */
export function findDue(jobs: readonly ScheduledJob[], known: readonly KnownSlot[], nowMs: number) {
  const knownOf = new Map(known.map((slot) => [slot.job, slot]));
  const pending = new Map<string, DueSlot>();
  let nextCheckMs = Number.POSITIVE_INFINITY;
  for (const job of jobs) {
    const next = nextSlot(job.schedule, nowMs);
    if (next) nextCheckMs = Math.min(nextCheckMs, next.atMs);
    const slot = pendingSlot(job, knownOf.get(job.name), nowMs);
    if (slot) pending.set(job.name, { ...slot, job });
  }
  const due: DueSlot[] = [];
  for (const slot of pending.values()) {
    const isFree = !knownOf.get(slot.job.name)?.isHeld;
    const waitsFor = slot.job.after.some((name) => {
      const other = pending.get(name);
      const isFirst = other !== undefined && other.atMs <= slot.atMs && !due.includes(other);
      return isFirst || (knownOf.get(name)?.isHeld ?? false);
    });
    if (isFree && !waitsFor) due.push(slot);
    else nextCheckMs = Math.min(nextCheckMs, nowMs);
  }
  return { due, nextCheckMs };
}

/** Last slot of a job that has not run; null if there is none or it is too old. */
function pendingSlot(job: ScheduledJob, known: KnownSlot | undefined, nowMs: number): Slot | null {
  // Not recorded yet: the job has no start from which to count slots.
  if (!known) return null;
  const knownMs = Date.parse(known.dueAt);
  const oldestMs = nowMs - CATCH_UP_MS;
  const newer = lastSlot(job.schedule, Math.max(oldestMs, knownMs + 1), nowMs);
  if (newer) return newer;
  const isOpen = known.endedAt === null && knownMs >= oldestMs;
  return isOpen ? { key: known.slot, atMs: knownMs } : null;
}
