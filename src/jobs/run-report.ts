import { type LimitedBy, OWN_LIMITS } from "../errors.ts";
import { type RunCounter, runCounters } from "../schemas/ops.ts";

/** End of a job or of a whole run. */
export type Status = "succeeded" | "failed" | "limited" | "skipped" | "interrupted" | "locked";

/** One job in the document of `run --json`. */
export interface JobReport extends Readonly<Record<RunCounter, number>> {
  readonly job: string;
  readonly type: string;
  readonly status: Status;
  readonly limited_by?: LimitedBy;
  /** From the job's start to its end. */
  readonly seconds: number;
  readonly error?: { readonly code: string; readonly message: string };
}

/** The document of `run --json`. */
export interface RunReport {
  readonly status: Status;
  readonly run_id: string;
  /** `I/N`; only with `--shard`. */
  readonly shard?: string;
  readonly jobs: readonly JobReport[];
}

/** A value for every counter. */
export type Counters = Readonly<Record<RunCounter, number>>;

/** Every counter at zero. */
export const zeroCounters: Counters =
  // The cast restores what Object.fromEntries forgets: every counter is there.
  Object.fromEntries(Object.keys(runCounters).map((name) => [name, 0])) as Counters;

/** Ranks of the ends of jobs in one run, worst first. */
const ranks: readonly Status[] = ["failed", "skipped", "interrupted", "locked", "limited", "succeeded"];

/** The status of the whole run. A job is skipped only because another one failed. */
export function statusOf(jobs: readonly JobReport[]): Status {
  const worst = ranks.find((status) => jobs.some((job) => job.status === status)) ?? "succeeded";
  return worst === "skipped" ? "failed" : worst;
}

/** The exit code of `run`: 1 outranks a signal's 130 or 143, that outranks 4, and 4 outranks 3; the user's own caps are no failure. */
export function exitCodeOf(report: RunReport, signal: "SIGINT" | "SIGTERM" | null): number {
  const has = (status: Status) => report.jobs.some((job) => job.status === status);
  if (has("failed") || has("skipped")) return 1;
  if (has("interrupted")) return signal === "SIGTERM" ? 143 : 130;
  if (has("locked")) return 4;
  const isLimitedByOthers = report.jobs.some(
    (job) => job.status === "limited" && job.limited_by !== undefined && !OWN_LIMITS.includes(job.limited_by),
  );
  return isLimitedByOthers ? 3 : 0;
}
