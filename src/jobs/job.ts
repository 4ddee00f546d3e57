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
import { holdJob } from "./hold-job.ts";
import { retryWhileDown } from "./retry-while-down.ts";
import type { Cost } from "./price.ts";
import { type JobServices, type RunRequest, type Shard, shardText } from "./services.ts";
import { countAttempts, type CounterDelta, recordAttempts, sumOf } from "../load/ledger/ledger.ts";
import type { PeopleChanged } from "../load/lookups/person-history.ts";
import type { Coverage } from "../load/lookups/selection.ts";
import type { RunRef } from "../load/runs/fence.ts";
import { beginRun, endRun, isSuccess, type RunEnd } from "../load/runs/runs.ts";
import { lastRuns, type PastRun } from "../load/runs/status.ts";
import type { Attempt } from "../schemas/ledger.ts";
import { type RunCounter, runCounters } from "../schemas/ops.ts";

/** `running` only in the report of an earlier run, which another process continues. */
export type Status = "running" | "succeeded" | "failed" | "limited" | "skipped" | "interrupted" | "locked";

/** One job, in `run --json`. */
export interface JobReport extends Readonly<Record<RunCounter, number>> {
  readonly job: string;
  readonly type: string;
  /** `I/N`; only in the report of an earlier run, which has all shards. */
  readonly shard?: string;
  readonly status: Status;
  readonly limited_by?: LimitedBy;
  readonly seconds: number;
  /** If the job can be billed: records that may have been billed without a response, in all shards of the run ID. */
  readonly possibly_billed?: number;
  /** With `prices`, if the job can be billed: all shards of the run ID. */
  readonly cost?: Cost;
  readonly error?: { readonly code: string; readonly message: string };
}

/** Output of `run --json`. */
export interface RunReport {
  readonly status: Status;
  readonly run_id: string;
  /** `I/N`; only with `--shard`. */
  readonly shard?: string;
  readonly jobs: readonly JobReport[];
  /** Changes in stored people, by all shards of the run ID; absent if it changed no one. */
  readonly people_changed?: Omit<PeopleChanged, "run_id">;
  /** Sum of the jobs; absent if the ledger can't be read. */
  readonly possibly_billed?: number;
  /** With `prices`: sum of the jobs. */
  readonly cost?: Cost;
}

export type Counters = Readonly<Record<RunCounter, number>>;

export const zeroCounters: Counters =
  // The cast restores the key type that Object.fromEntries loses.
  Object.fromEntries(Object.keys(runCounters).map((name) => [name, 0])) as Counters;

/** Input rows read that no counter accounts for; 0 unless the counters are wrong. */
export function unaccountedRows(counters: Counters): number {
  const ended =
    counters.records_unchanged +
    counters.records_duplicate +
    counters.records_suppressed +
    counters.records_waiting +
    counters.records_sent +
    counters.records_rejected_before_sending +
    counters.records_remaining;
  return counters.records_read - ended;
}

/** Ends of jobs, worst first. */
const ranks: readonly Status[] = [
  "running",
  "failed",
  "skipped",
  "interrupted",
  "locked",
  "limited",
  "succeeded",
];

/** Status of the whole run. A job is skipped only because another one failed. */
export function statusOf(jobs: readonly Pick<JobReport, "status">[]): Status {
  const worst = ranks.find((status) => jobs.some((job) => job.status === status)) ?? "succeeded";
  return worst === "skipped" ? "failed" : worst;
}

/** Exit code of `run`, by precedence: 1, then 130 or 143 for a signal, 4, 3. The user's own caps are not a failure. */
export function exitCodeOf(report: RunReport, signal: "SIGINT" | "SIGTERM" | null): number {
  const has = (status: Status) => report.jobs.some((job) => job.status === status);
  if (has("failed") || has("skipped")) return 1;
  if (has("interrupted")) return signal === "SIGTERM" ? 143 : 130;
  if (has("locked")) return 4;
  const isDone = report.jobs.every(isSuccess);
  return isDone ? 0 : 3;
}

export interface JobEnd {
  /** `locked`: another process holds the job and records the run. */
  readonly status: RunEnd["status"] | "locked";
  readonly limitedBy: LimitedBy | null;
  readonly error: { readonly code: string; readonly message: string } | null;
  /** True if no other job of this run can continue. */
  readonly stopsRun: boolean;
  readonly cause?: unknown;
}

export const succeeded: JobEnd = { status: "succeeded", limitedBy: null, error: null, stopsRun: false };

/** Stopped by a signal, or skipped because of it. */
export const interrupted: JobEnd = { ...succeeded, status: "interrupted" };

/** The user's cap or budget was reached, which is not an error. */
export function capped(limitedBy: LimitedBy): JobEnd {
  return { ...succeeded, status: "limited", limitedBy };
}

/** `skipped`: another job failed. `locked`: another process holds the job, or a job of its chain. */
export function ended(status: "failed" | "skipped" | "locked", code: string, message: string): JobEnd {
  return { ...succeeded, status, error: { code, message } };
}

/**
 * Maps a thrown error to a job's end.
 * @param doing interrupted work, for errors that don't name it: `selecting what is due`
 */
export function endOfError(error: unknown, doing: string): JobEnd {
  if (error instanceof InterruptedError) return interrupted;
  if (error instanceof LockLostError) return ended("locked", error.code, error.message);
  if (error instanceof LimitReachedError) {
    if (OWN_LIMITS.includes(error.code)) return capped(error.code);
    return { ...ended("failed", error.code, error.message), status: "limited", limitedBy: error.code };
  }
  const end = ended(
    "failed",
    codeOf(error) ?? "internal",
    isOwnError(error) ? error.message : unexpectedMessage(error, doing),
  );
  return { ...end, stopsRun: error instanceof StopRunError, cause: error };
}

interface Unrecorded {
  readonly ledger: readonly Attempt[];
  readonly counters: CounterDelta;
}

function createTotals() {
  let totals: CounterDelta = {};
  let waiting: CounterDelta = {};
  let ledger: Attempt[] = [];
  /** Adds to the totals and to the next commit. */
  const add = (counters: CounterDelta) => {
    totals = sumOf([totals, counters]);
    waiting = sumOf([waiting, counters]);
  };
  return {
    add,
    addAttempt(attempt: Attempt): void {
      ledger.push(attempt);
      add(countAttempts([attempt]));
    },
    /** Adds counters that the warehouse has already recorded. */
    addRecorded(counters: CounterDelta): void {
      totals = sumOf([totals, counters]);
    },
    take(): Unrecorded {
      const taken = { ledger, counters: waiting };
      ledger = [];
      waiting = {};
      return taken;
    },
    /** Returns counters and attempts of a failed commit. Attempts that were recorded anyway count only once. */
    putBack(taken: Unrecorded): void {
      ledger = [...taken.ledger, ...ledger];
      waiting = sumOf([taken.counters, waiting]);
    },
    counters: (): Counters => ({ ...zeroCounters, ...totals }),
  };
}

const RECORDING = "recording the end of the run";

/** Context of a job's run while it holds the lock; `signal` is also aborted when the lock is lost, and `db` waits out outages. */
export interface JobContext<J extends JobConfig = JobConfig> extends JobServices {
  readonly job: J;
  readonly request: RunRequest;
  readonly run: RunRef;
  readonly totals: ReturnType<typeof createTotals>;
  /** Earlier runs of the job, newest first, including one with the same ID. */
  readonly pastRuns: readonly PastRun[];
}

export interface WorkResult {
  readonly end: JobEnd;
  readonly coverage?: Coverage | null;
}

export interface JobResult {
  readonly end: JobEnd;
  readonly counters: Counters;
}

interface JobStart<J extends JobConfig> {
  readonly job: J;
  readonly request: RunRequest;
  readonly shard: Shard;
  readonly writes: readonly string[];
}

/**
 * Runs a job of any type once: takes the lock, records start, totals and end, and waits out outages. Throws only if the
 * job could not start.
 */
export async function runJob<J extends JobConfig>(
  services: JobServices,
  start: JobStart<J>,
  work: (context: JobContext<J>) => Promise<WorkResult>,
): Promise<JobResult> {
  const { job, request, shard } = start;
  const wanted = { runId: request.runId, job: job.name, jobType: job.type, shard: shardText(shard) };
  const hold = await holdJob(services, wanted, request);
  if (hold.kind === "refused")
    return { end: ended("locked", "locked", hold.message), counters: zeroCounters };
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
  work: (context: JobContext<J>) => Promise<WorkResult>,
): Promise<JobResult> {
  const { config, signal } = services;
  const pastRuns = await lastRuns(services.db, job.name);
  await beginRun(services.db, run);
  const db = retryWhileDown(services.db, { ...services, retryForMs: config.retryForMs });
  const totals = createTotals();
  const worked = await work({ ...services, db, job, request, run, totals, pastRuns }).catch(
    (error: unknown): WorkResult => ({ end: endOfError(error, `running a job of type ${job.type}`) }),
  );
  // Errors after the loss of the lock don't count as failures.
  const end = signal.reason instanceof LockLostError ? endOfError(signal.reason, "running") : worked.end;
  const result = () => ({ end, counters: totals.counters() });
  // The totals belong to the process that took over the job.
  if (end.status === "locked") return result();
  const { status, limitedBy, error } = end;
  try {
    const { ledger, counters } = totals.take();
    if (ledger.length > 0) await recordAttempts(db, run, ledger, counters);
    const runEnd = {
      status,
      limitedBy,
      error: error?.message ?? null,
      counters: totals.counters(),
      tables: writes,
    };
    await endRun(db, run, runEnd, worked.coverage ?? null);
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
