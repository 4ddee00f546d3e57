import { setTimeout as delay } from "node:timers/promises";
import { adviceFor } from "../advice.ts";
import type { AlertsConfig, Config, JobConfig } from "../config/config.ts";
import {
  codeOf,
  describeForLog,
  FixConfigurationError,
  messageOf,
  StopJobError,
  StopRunError,
} from "../errors.ts";
import { connectHint, openAgent } from "../http-agent.ts";
import { triedRecords, unusualRejects } from "../jobs/confirm.ts";
import { type PlanLeft, planLeftText } from "../jobs/report/costs.ts";
import type { StatusReport } from "../jobs/report/status.ts";
import type { JobReport, RunReport } from "../jobs/job.ts";
import type { JobServices } from "../jobs/services.ts";
import type { Db } from "../load/db/db.ts";
import { type StateChange, reportChanges } from "../load/runs/alerts.ts";
import { isSuccess } from "../load/runs/runs.ts";

export type AlertServices = Pick<JobServices, "config" | "clock" | "log"> & {
  /** Null if it can't be opened. */
  readonly db: Db | null;
};

/** Posts every changed state to the webhook, once across processes. Never throws. */
export async function sendAlerts(
  services: AlertServices,
  states: readonly ReportableState[],
  runId: string,
): Promise<void> {
  const { config, db, clock, log } = services;
  if (config.alerts === null || states.length === 0) return;
  const named = states.map((one) => ({ subject: one.subject, state: storedState(one) }));
  const webhook = { isTried: false, error: null as unknown };
  const post = async (changes: readonly StateChange[]) => {
    const alerts = changes.flatMap(({ subject, state, before }): readonly Alert[] => {
      const report = states.find((one) => one.subject === subject && storedState(one) === state);
      if (!report || (state === "ok" && report.isQuietWhenOk)) return [];
      return [{ ...report, before: report.event === undefined ? before : "ok" }];
    });
    if (config.alerts === null || alerts.length === 0) return;
    await postToWebhook(config.alerts, {
      alerts,
      runId,
      warehouse: db?.description ?? "the warehouse can't be reached",
      at: new Date(clock.now()).toISOString(),
    });
    log.info({ alerts: alerts.map(({ subject, state }) => `${subject}: ${state}`) }, "alerts_sent");
  };
  // Doesn't throw: the warehouse would take the error for its own. A repeated transaction doesn't post again.
  const report = async (changes: readonly StateChange[]) => {
    if (!webhook.isTried) {
      webhook.isTried = true;
      await post(changes).catch((error: unknown) => {
        webhook.error = error;
      });
    }
    return webhook.error === null;
  };
  try {
    try {
      if (db) {
        await reportChanges(db, named, runId, report);
        if (webhook.error !== null) throw webhook.error;
        return;
      }
    } catch (error) {
      if (webhook.isTried) throw error;
      log.warn(describeForLog(error), "alert_states_unreadable");
    }
    // An alert sent twice is better than none: the warehouse itself may be failing.
    await post(named.filter(({ state }) => state !== "ok").map((one) => ({ ...one, before: "unknown" })));
  } catch (error) {
    const described = describeForLog(error);
    const hint = connectHint(described.code ?? "") ?? "retried after the next run";
    log.warn({ ...described, hint }, "alerts_failed");
  }
}

/** State of a subject, and the alert to send when it changes to this state. */
export interface ReportableState {
  /** `job NAME`, `rejects NAME`, `freshness NAME`, `budget TYPE PERIOD`, `plan TYPE`, `match_rate NAME ROWS`, … */
  readonly subject: string;
  /** `ok`, or a code. */
  readonly state: string;
  readonly message: string;
  readonly whatToDo: string;
  /** True if a return to `ok` sends no alert. */
  readonly isQuietWhenOk: boolean;
  /** Event, such as a run ID: each is reported once, and is no state that ends. */
  readonly event?: string;
}

/** State as stored: that of an event names it. */
export function storedState({ state, event }: Pick<ReportableState, "state" | "event">): string {
  return event === undefined ? state : `${state} ${event}`;
}

interface Alert extends ReportableState {
  /** State last reported. */
  readonly before: string;
}

/** Subject of failures of whole runs. */
const RUN = "run";

/** Declares a state, with the advice for its code. */
export function stateOf(
  subject: string,
  state: string,
  message: string,
  isQuietWhenOk = false,
): ReportableState {
  return { subject, state, message, whatToDo: state === "ok" ? "" : adviceFor(state).next, isQuietWhenOk };
}

export const okAgain = (subject: string, isQuietWhenOk = false) =>
  stateOf(subject, "ok", `${subject} is ok again.`, isQuietWhenOk);

/** States after a run; skipped and interrupted jobs keep their state. */
export function statesOfRun(
  config: Pick<Config, "alerts" | "jobs" | "maxRejectRatio">,
  report: RunReport,
): readonly ReportableState[] {
  const { alerts, jobs } = config;
  if (alerts === null) return [];
  const ofJobs = report.jobs.flatMap((ran) => {
    const job = jobs.find(({ name }) => name === ran.job);
    return [stateOfJob(alerts, ran), job && stateOfRejects(job, ran, config)];
  });
  return [stateOf(RUN, "ok", "Runs start again."), ...ofJobs].filter(
    (state) => state !== null && state !== undefined,
  );
}

function stateOfJob(
  alerts: AlertsConfig,
  { job, status, limited_by: limit, error }: JobReport,
): ReportableState | null {
  const subject = `job ${job}`;
  if (isSuccess({ status, limited_by: limit })) return stateOf(subject, "ok", `${job} succeeded.`);
  const reported: readonly string[] = alerts.on;
  if (!reported.includes(status)) return null;
  return stateOf(
    subject,
    error?.code ?? limit ?? status,
    error?.message ?? `${job} ended with status ${status}.`,
  );
}

/** State of a job's reject ratio; null if it sent nothing. */
function stateOfRejects(
  job: JobConfig,
  report: JobReport,
  config: Pick<Config, "maxRejectRatio">,
): ReportableState | null {
  if (triedRecords(report) === 0) return null;
  const subject = `rejects ${job.name}`;
  const message = unusualRejects(job, report, config);
  return message === null ? okAgain(subject) : stateOf(subject, "many_rejects", message);
}

/** State after a run that failed to start. Omits messages of unknown errors, which may quote data. */
export function stateOfFailure(error: unknown): ReportableState {
  const isOurs = [FixConfigurationError, StopRunError, StopJobError].some((kind) => error instanceof kind);
  if (!isOurs) return stateOf(RUN, "internal", "A run failed before its first job; the cause is in the log.");
  return stateOf(RUN, codeOf(error) ?? "internal", messageOf(error));
}

/** States that change without a run: late jobs, budgets and plans that are nearly used up. */
export function statesOfTime(
  { alerts }: Pick<Config, "alerts">,
  {
    jobs,
    budgets,
    attention,
    plan_left: plans,
  }: Pick<StatusReport, "jobs" | "budgets" | "attention" | "plan_left">,
): readonly ReportableState[] {
  if (alerts === null) return [];
  const isWatched = alerts.staleAfterMs !== null;
  const freshness = jobs
    // A job that is running now keeps its state.
    .filter(({ enabled, freshness: state }) => enabled && isWatched && state !== "running")
    .map(({ job, freshness: state, last_success_at: at }) => {
      const subject = `freshness ${job}`;
      const since = at === null ? "It has never succeeded" : `It last succeeded at ${at}`;
      return state === "stale" ? stateOf(subject, "stale", `${job} is late. ${since}.`) : okAgain(subject);
    });
  const used = budgets.map(({ budget, period }) => {
    const subject = `budget ${budget} ${period}`;
    const found = attention.find((note) => note.subject === subject);
    return found ? stateOf(subject, found.code, found.message, true) : okAgain(subject, true);
  });
  return [...freshness, ...used, ...(alerts.on.includes("plan_left") ? plans.map(stateOfPlan) : [])];
}

/** Part of an allowance below which it is nearly used up. */
const LITTLE = 0.1;

/** The pace of fewer days is that of the first night, or of none. */
const PACE_DAYS = 7;

/** State of the rest of a plan. What a 402 stated is little: the service refused a call for lack of records. */
function stateOfPlan(plan: PlanLeft): ReportableState {
  const { of: unit, limit, left, lasts_until: until, pace_days: days } = plan;
  const subject = `plan ${unit}`;
  if (left === null) return okAgain(subject, true);
  if (left === 0) return stateOf(subject, "plan_used_up", `${planLeftText(plan)}.`, true);
  const isLittle = limit === null || left < LITTLE * limit || (until !== null && days >= PACE_DAYS);
  return isLittle ? stateOf(subject, "plan_low", `${planLeftText(plan)}.`, true) : okAgain(subject, true);
}

interface AlertPost {
  readonly alerts: readonly Alert[];
  /** Empty if no run is involved. */
  readonly runId: string;
  readonly warehouse: string;
  /** ISO 8601, UTC. */
  readonly at: string;
}

const TIMEOUT_MS = 10_000;

const TRIES = 3;

const PAUSE_MS = 500;

/** The webhook rejected an alert; the message has only the status, since its address is a secret. */
class WebhookError extends Error {
  override readonly name = "WebhookError";
  readonly code: string;
  constructor(code: string) {
    super(`The webhook returned ${code}.`);
    this.code = code;
  }
}

/** Posts alerts; verifies certificates and doesn't follow redirects. Throws if the webhook rejects them. */
export async function postToWebhook(
  { webhook, format }: Pick<AlertsConfig, "webhook" | "format">,
  post: AlertPost,
): Promise<void> {
  const url = new URL(await webhook.read());
  const isSlack = format === "slack" || (format === "auto" && url.hostname === "hooks.slack.com");
  const body = JSON.stringify(isSlack ? slackForm(post) : jsonForm(post));
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await postOnce(url, body);
    } catch (error) {
      const isRefused = error instanceof WebhookError && /^http_4(?!08|29)/.test(error.code);
      if (isRefused || attempt === TRIES) throw error;
      await delay(PAUSE_MS * attempt);
    }
  }
}

async function postOnce(url: URL, body: string): Promise<void> {
  const agent = openAgent({ connections: 1, connectTimeoutMs: TIMEOUT_MS });
  try {
    const response = await agent.request({
      origin: url.origin,
      path: `${url.pathname}${url.search}`,
      method: "POST",
      body,
      headers: { "content-type": "application/json" },
      headersTimeout: TIMEOUT_MS,
      bodyTimeout: TIMEOUT_MS,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    await response.body.dump();
    if (response.statusCode < 200 || response.statusCode > 299) {
      throw new WebhookError(`http_${response.statusCode}`);
    }
  } finally {
    await agent.close();
  }
}

/** JSON body with every alert, its code, and its remedy. */
function jsonForm({ alerts, runId, warehouse, at }: AlertPost): object {
  return {
    source: "person-etl",
    at,
    run_id: runId === "" ? null : runId,
    warehouse,
    alerts: alerts.map(({ subject, state, before, message, whatToDo }) => ({
      subject,
      state,
      before,
      message,
      what_to_do: whatToDo === "" ? null : whatToDo,
    })),
  };
}

/** Slack-compatible body: one text, with Slack's special characters escaped. */
function slackForm({ alerts, runId, warehouse }: AlertPost): object {
  const lines = alerts.flatMap(({ subject, state, message, whatToDo }) => [
    `${state === "ok" ? ":white_check_mark:" : ":x:"} *${escape(subject)}*: ${escape(message)}`,
    ...(whatToDo === "" ? [] : [`→ ${escape(whatToDo)}`]),
  ]);
  const run = runId === "" ? "" : `run ${runId}, `;
  return { text: [...lines, `_person-etl, ${escape(`${run}${warehouse}`)}_`].join("\n") };
}

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
