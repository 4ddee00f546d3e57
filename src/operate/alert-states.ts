import type { Config, JobConfig } from "../config/config.ts";
import {
  codeOf,
  FixConfigurationError,
  messageOf,
  OWN_LIMITS,
  StopJobError,
  StopRunError,
} from "../errors.ts";
import { adviceFor } from "../advice.ts";
import { triedRecords, unusualRejects } from "../jobs/lookup/reject-ratio.ts";
import type { JobReport, RunReport } from "../jobs/run.ts";
import type { StatusReport } from "../jobs/report/status.ts";

/** The state of something, and what is told when it changes to this. */
export interface TellableState {
  /** `job NAME`, `rejects NAME`, `freshness NAME`, `budget TYPE PERIOD`. */
  readonly subject: string;
  /** `ok`, or a code. */
  readonly state: string;
  readonly message: string;
  readonly whatToDo: string;
  /** A return to `ok` is no news: it comes by itself. */
  readonly isQuietWhenOk: boolean;
}

/** A change as it is told. */
export interface Alert extends TellableState {
  /** State that was told before. */
  readonly before: string;
}

type Alerts = NonNullable<Config["alerts"]>;

/** The states of a run's jobs; one whose end says nothing about it (skipped, stopped) keeps the state it had. */
export function statesOfRun(
  { alerts, jobs }: Pick<Config, "alerts" | "jobs">,
  report: RunReport,
): readonly TellableState[] {
  if (alerts === null) return [];
  const message = "Runs are begun again.";
  const begun: TellableState = { subject: RUN, state: "ok", message, whatToDo: "", isQuietWhenOk: false };
  const ofJobs = report.jobs.flatMap((ran) => {
    const job = jobs.find(({ name }) => name === ran.job);
    return [stateOfJob(alerts, ran) ?? [], job ? (stateOfRejects(job, ran) ?? []) : []].flat();
  });
  return [begun, ...ofJobs];
}

/** Whether unusually many records were rejected, of jobs that sent any. */
function stateOfRejects(job: JobConfig, report: JobReport): TellableState | null {
  if (triedRecords(report) === 0) return null;
  const message = unusualRejects(job, report);
  return stateOf(`rejects ${job.name}`, message === null ? "ok" : "many_rejects", message ?? "", false);
}

/** Subject of what stands against whole runs. */
const RUN = "run";

/** The state of runs that can't be begun. Foreign errors are told by their class only: their texts may quote anything. */
export function stateOfFailure(error: unknown): TellableState {
  const isOurs = [FixConfigurationError, StopRunError, StopJobError].some((kind) => error instanceof kind);
  const code = isOurs ? (codeOf(error) ?? "internal") : "internal";
  const message = isOurs
    ? messageOf(error)
    : "A run ended before its first job, for a reason that the log has.";
  return { subject: RUN, state: code, message, whatToDo: adviceFor(code).next, isQuietWhenOk: false };
}

function stateOfJob(alerts: Alerts, report: JobReport): TellableState | null {
  const subject = `job ${report.job}`;
  const { status, limited_by: limit, error } = report;
  const isOwnLimit = limit !== undefined && OWN_LIMITS.some((own) => own === limit);
  if (status === "succeeded" || (status === "limited" && isOwnLimit)) {
    return { subject, state: "ok", message: `${report.job} succeeded.`, whatToDo: "", isQuietWhenOk: false };
  }
  if (status === "skipped" || !alerts.on.includes(status)) return null;
  const code = error?.code ?? limit ?? status;
  const message = error?.message ?? `${report.job} ended as ${status}.`;
  return { subject, state: code, message, whatToDo: adviceFor(code).next, isQuietWhenOk: false };
}

/** States that change without a run: jobs that should have run, budgets that are nearly used. */
export function statesOfTime(
  { alerts }: Pick<Config, "alerts">,
  { jobs, budgets, attention }: Pick<StatusReport, "jobs" | "budgets" | "attention">,
): readonly TellableState[] {
  if (alerts === null) return [];
  const isWatched = alerts.staleAfterMs !== null;
  const freshness = jobs
    .filter(({ enabled }) => enabled && isWatched)
    .map(({ job, freshness: state, last_success_at: at }) => {
      const since = at === null ? "It has never succeeded" : `It has last succeeded at ${at}`;
      return stateOf(
        `freshness ${job}`,
        state === "stale" ? "stale" : "ok",
        `${job} is late. ${since}.`,
        false,
      );
    });
  const used = budgets.map(({ budget, period }) => {
    const subject = `budget ${budget} ${period}`;
    const found = attention.find((note) => note.subject === subject);
    return stateOf(subject, found?.code ?? "ok", found?.message ?? "", true);
  });
  return [...freshness, ...used];
}

function stateOf(subject: string, state: string, message: string, isQuietWhenOk: boolean): TellableState {
  const isOk = state === "ok";
  return {
    subject,
    state,
    message: isOk ? `${subject} is well again.` : message,
    whatToDo: isOk ? "" : adviceFor(state).next,
    isQuietWhenOk,
  };
}
