import type { Config, JobConfig } from "../config/config.ts";
import { codeOf, FixConfigurationError, messageOf, StopJobError, StopRunError } from "../errors.ts";
import { adviceFor } from "../advice.ts";
import { isSuccess } from "../load/runs/success.ts";
import { triedRecords, unusualRejects } from "../jobs/lookup/decide.ts";
import type { JobReport, RunReport } from "../jobs/run.ts";
import type { StatusReport } from "../jobs/report/status.ts";

/** State of a subject, and the alert to send when it changes to this state. */
export interface ReportableState {
  /** `job NAME`, `rejects NAME`, `freshness NAME`, `budget TYPE PERIOD`. */
  readonly subject: string;
  /** `ok`, or a code. */
  readonly state: string;
  readonly message: string;
  readonly whatToDo: string;
  /** True if a return to `ok` sends no alert. */
  readonly isQuietWhenOk: boolean;
}

/** A change of state as reported. */
export interface Alert extends ReportableState {
  /** State last reported. */
  readonly before: string;
}

type Alerts = NonNullable<Config["alerts"]>;

/** States after a run; skipped and interrupted jobs keep their state. */
export function statesOfRun(
  { alerts, jobs }: Pick<Config, "alerts" | "jobs">,
  report: RunReport,
): readonly ReportableState[] {
  if (alerts === null) return [];
  const message = "Runs start again.";
  const begun: ReportableState = { subject: RUN, state: "ok", message, whatToDo: "", isQuietWhenOk: false };
  const ofJobs = report.jobs.flatMap((ran) => {
    const job = jobs.find(({ name }) => name === ran.job);
    return [stateOfJob(alerts, ran) ?? [], job ? (stateOfRejects(job, ran) ?? []) : []].flat();
  });
  return [begun, ...ofJobs];
}

/** State of a job's reject ratio; null if it sent nothing. */
function stateOfRejects(job: JobConfig, report: JobReport): ReportableState | null {
  if (triedRecords(report) === 0) return null;
  const message = unusualRejects(job, report);
  return stateOf(`rejects ${job.name}`, message === null ? "ok" : "many_rejects", message ?? "", false);
}

/** Subject of failures of whole runs. */
const RUN = "run";

/** State after a run that failed to start. Omits messages of unknown errors, which may quote data. */
export function stateOfFailure(error: unknown): ReportableState {
  const isOurs = [FixConfigurationError, StopRunError, StopJobError].some((kind) => error instanceof kind);
  const code = isOurs ? (codeOf(error) ?? "internal") : "internal";
  const message = isOurs ? messageOf(error) : "A run failed before its first job; the cause is in the log.";
  return { subject: RUN, state: code, message, whatToDo: adviceFor(code).next, isQuietWhenOk: false };
}

function stateOfJob(alerts: Alerts, report: JobReport): ReportableState | null {
  const subject = `job ${report.job}`;
  const { status, limited_by: limit, error } = report;
  if (isSuccess({ status, limitedBy: limit })) {
    return { subject, state: "ok", message: `${report.job} succeeded.`, whatToDo: "", isQuietWhenOk: false };
  }
  const reported: readonly string[] = alerts.on;
  if (!reported.includes(status)) return null;
  const code = error?.code ?? limit ?? status;
  const message = error?.message ?? `${report.job} ended with status ${status}.`;
  return { subject, state: code, message, whatToDo: adviceFor(code).next, isQuietWhenOk: false };
}

/** States that change without a run: late jobs, budgets that are nearly used up. */
export function statesOfTime(
  { alerts }: Pick<Config, "alerts">,
  { jobs, budgets, attention }: Pick<StatusReport, "jobs" | "budgets" | "attention">,
): readonly ReportableState[] {
  if (alerts === null) return [];
  const isWatched = alerts.staleAfterMs !== null;
  const freshness = jobs
    // A job that is running now keeps its state.
    .filter(({ enabled, freshness: state }) => enabled && isWatched && state !== "running")
    .map(({ job, freshness: state, last_success_at: at }) => {
      const since = at === null ? "It has never succeeded" : `It last succeeded at ${at}`;
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

function stateOf(subject: string, state: string, message: string, isQuietWhenOk: boolean): ReportableState {
  const isOk = state === "ok";
  return {
    subject,
    state,
    message: isOk ? `${subject} is ok again.` : message,
    whatToDo: isOk ? "" : adviceFor(state).next,
    isQuietWhenOk,
  };
}
