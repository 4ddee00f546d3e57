import type { Cost } from "./price.ts";
import type { LimitedBy } from "../errors.ts";
import { isSuccess } from "../load/runs/success.ts";
import { type RunCounter, runCounters } from "../schemas/ops.ts";

/** End of a job or a run. */
export type Status = "succeeded" | "failed" | "limited" | "skipped" | "interrupted" | "locked";

/** One job, in `run --json`. */
export interface JobReport extends Readonly<Record<RunCounter, number>> {
  readonly job: string;
  readonly type: string;
  readonly status: Status;
  readonly limited_by?: LimitedBy;
  /** Duration of the job. */
  readonly seconds: number;
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
  /** With `prices`: sum of the jobs. */
  readonly cost?: Cost;
}

/** A value for every counter. */
export type Counters = Readonly<Record<RunCounter, number>>;

/** Every counter at zero. */
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
const ranks: readonly Status[] = ["failed", "skipped", "interrupted", "locked", "limited", "succeeded"];

/** Status of the whole run. A job is skipped only because another one failed. */
export function statusOf(jobs: readonly JobReport[]): Status {
  const worst = ranks.find((status) => jobs.some((job) => job.status === status)) ?? "succeeded";
  return worst === "skipped" ? "failed" : worst;
}

/** Exit code of `run`, by precedence: 1, then 130 or 143 for a signal, 4, 3. The user's own caps are not a failure. */
export function exitCodeOf(report: RunReport, signal: "SIGINT" | "SIGTERM" | null): number {
  const has = (status: Status) => report.jobs.some((job) => job.status === status);
  if (has("failed") || has("skipped")) return 1;
  if (has("interrupted")) return signal === "SIGTERM" ? 143 : 130;
  if (has("locked")) return 4;
  const isDone = report.jobs.every(({ status, limited_by: limitedBy }) => isSuccess({ status, limitedBy }));
  return isDone ? 0 : 3;
}
