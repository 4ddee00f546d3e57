import type { JobConfig } from "../config/config.ts";
import {
  codeOf,
  InterruptedError,
  isOwnError,
  type LimitedBy,
  LimitReachedError,
  LockLostError,
  OWN_LIMITS,
  StopRunError,
  unexpectedMessage,
} from "../errors.ts";
import { countAttempts, type CounterDelta, sumOf } from "../load/ledger/counters.ts";
import { recordAttempts } from "../load/ledger/ledger.ts";
import type { Coverage } from "../load/lookups/coverage.ts";
import { lastRuns, type PastRun } from "../load/runs/job-status.ts";
import type { RunRef } from "../load/runs/run-ref.ts";
import { beginRun, endRun, type RunEnd } from "../load/runs/runs.ts";
import type { Attempt } from "../schemas/attempt.ts";
import { holdJob } from "./hold-job.ts";
import { createOutage, type Outage } from "./outage.ts";
import { type Counters, zeroCounters } from "./run-report.ts";
import type { JobServices, RunRequest } from "./services.ts";
import { type Shard, shardText } from "./shard.ts";

/** End of a job. */
export interface JobEnd {
  /** `locked`: another process holds the job and records the run. */
  readonly status: RunEnd["status"] | "locked";
  readonly limitedBy: LimitedBy | null;
  readonly error: { readonly code: string; readonly message: string } | null;
  /** True if no other job of this run can continue. */
  readonly stopsRun: boolean;
  /** Thrown error, for the log; undefined for none. */
  readonly cause?: unknown;
}

/** Finished without error. */
export const succeeded: JobEnd = { status: "succeeded", limitedBy: null, error: null, stopsRun: false };

/** Stopped by a signal, or skipped because of it. */
export const interrupted: JobEnd = { ...succeeded, status: "interrupted" };

/** The user's cap or budget was reached, which is not an error. */
export function capped(limitedBy: LimitedBy): JobEnd {
  return { ...succeeded, status: "limited", limitedBy };
}

/** Failed with an error. */
export function failed(code: string, message: string): JobEnd {
  return { ...succeeded, status: "failed", error: { code, message } };
}

/** Skipped because another job failed. */
export function skipped(code: string, message: string): JobEnd {
  return { ...succeeded, status: "skipped", error: { code, message } };
}

/** Not run or not finished, because another process holds the job. */
export function locked(code: string, message: string): JobEnd {
  return { ...succeeded, status: "locked", error: { code, message } };
}

/**
 * Maps a thrown error to a job's end.
 * @param doing interrupted work, for errors that don't name it: `selecting what is due`
 */
export function endOfError(error: unknown, doing: string): JobEnd {
  if (error instanceof InterruptedError) return interrupted;
  if (error instanceof LockLostError) return locked(error.code, error.message);
  if (error instanceof LimitReachedError) {
    if (OWN_LIMITS.includes(error.code)) return capped(error.code);
    return { ...failed(error.code, error.message), status: "limited", limitedBy: error.code };
  }
  const end = failed(
    codeOf(error) ?? "internal",
    isOwnError(error) ? error.message : unexpectedMessage(error, doing),
  );
  return { ...end, stopsRun: error instanceof StopRunError, cause: error };
}

/** Totals of a job's run, with the part that is not recorded yet. */
interface RunTotals {
  /** Adds an attempt to the totals and to the next commit. */
  addAttempt(attempt: Attempt): void;
  /** Adds to the totals and to the next commit. */
  add(counters: CounterDelta): void;
  /** Adds counters that the warehouse has already recorded. */
  addRecorded(counters: CounterDelta): void;
  /** Takes everything not recorded yet. */
  take(): Unrecorded;
  /** Returns counters and attempts of a failed commit. Attempts that were recorded anyway count only once. */
  putBack(taken: Unrecorded): void;
  counters(): Counters;
}

/** Attempts and counters for the next commit. */
interface Unrecorded {
  readonly ledger: readonly Attempt[];
  readonly counters: CounterDelta;
}

/** Creates totals of zero. */
function createTotals(): RunTotals {
  let totals: CounterDelta = {};
  let waiting: CounterDelta = {};
  let ledger: Attempt[] = [];
  const add = (counters: CounterDelta) => {
    totals = sumOf([totals, counters]);
    waiting = sumOf([waiting, counters]);
  };
  return {
    addAttempt(attempt) {
      ledger.push(attempt);
      add(countAttempts([attempt]));
    },
    add,
    addRecorded(counters) {
      totals = sumOf([totals, counters]);
    },
    take() {
      const taken = { ledger, counters: waiting };
      ledger = [];
      waiting = {};
      return taken;
    },
    putBack(taken) {
      ledger = [...taken.ledger, ...ledger];
      waiting = sumOf([taken.counters, waiting]);
    },
    counters: () => ({ ...zeroCounters, ...totals }),
  };
}

/** Last work of a run. */
const RECORDING = "recording the end of the run";

/** Context of a job's run while it holds the lock; `signal` is also aborted when the lock is lost. */
export interface JobContext<J extends JobConfig = JobConfig> extends JobServices {
  readonly job: J;
  readonly request: RunRequest;
  readonly run: RunRef;
  readonly outage: Outage;
  readonly totals: RunTotals;
  /** Earlier runs of the job, newest first, including one with the same ID. */
  readonly pastRuns: readonly PastRun[];
}

/** Result of a job's work. */
export interface Worked {
  readonly end: JobEnd;
  readonly coverage?: Coverage | null;
}

/** End and counters of a job. */
export interface JobResult {
  readonly end: JobEnd;
  readonly counters: Counters;
}

/** Job to run. */
interface JobStart<J extends JobConfig> {
  readonly job: J;
  readonly request: RunRequest;
  /** Part of the input to process. */
  readonly shard: Shard;
  /** Result tables, which are fresh after a success. */
  readonly writes: readonly string[];
}

/**
 * Runs a job of any type once: takes the lock, records start, totals and end, and waits out outages. Throws only if the
 * job could not start.
 */
export async function runJob<J extends JobConfig>(
  services: JobServices,
  start: JobStart<J>,
  work: (context: JobContext<J>) => Promise<Worked>,
): Promise<JobResult> {
  const { job, request, shard } = start;
  const wanted = { runId: request.runId, job: job.name, jobType: job.type, shard: shardText(shard) };
  const hold = await holdJob(services, wanted, request);
  if (hold.kind === "refused") return { end: locked("locked", hold.message), counters: zeroCounters };
  const { run, signal, release } = hold.held;
  try {
    return await runHeld({ ...services, signal }, start, run, work);
  } finally {
    await release();
  }
}

async function runHeld<J extends JobConfig>(
  services: JobServices,
  { job, request, writes }: JobStart<J>,
  run: RunRef,
  work: (context: JobContext<J>) => Promise<Worked>,
): Promise<JobResult> {
  const { db, config, clock, log, signal } = services;
  const { retryForMs } = config.warehouse;
  const pastRuns = await lastRuns(db, job.name);
  await beginRun(db, run);
  const outage = createOutage({ clock, log, signal, retryForMs, job: job.name });
  const totals = createTotals();
  const worked = await work({ ...services, job, request, run, outage, totals, pastRuns }).catch(
    (error: unknown): Worked => ({ end: endOfError(error, `running a job of type ${job.type}`) }),
  );
  // Errors after the loss of the lock don't count as failures.
  const end = signal.reason instanceof LockLostError ? endOfError(signal.reason, "running") : worked.end;
  const result = () => ({ end, counters: totals.counters() });
  // The totals belong to the process that took over the job.
  if (end.status === "locked") return result();
  const { status, limitedBy, error } = end;
  try {
    const { ledger, counters } = totals.take();
    if (ledger.length > 0) await outage.outlast(() => recordAttempts(db, run, ledger, counters));
    const runEnd = {
      status,
      limitedBy,
      error: error?.message ?? null,
      counters: totals.counters(),
      tables: writes,
    };
    await outage.outlast(() => endRun(db, run, runEnd, worked.coverage ?? null));
  } catch (failure) {
    if (failure instanceof LockLostError) return { ...result(), end: endOfError(failure, RECORDING) };
    // A warehouse that can't record the end is of no use to the jobs that follow.
    return {
      ...result(),
      end: { ...(status === "failed" ? end : endOfError(failure, RECORDING)), stopsRun: true },
    };
  }
  return result();
}
