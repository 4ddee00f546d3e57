import { describeForLog } from "../errors.ts";
import { readStatus } from "../jobs/report/status.ts";
import type { RunReport } from "../jobs/job.ts";
import type { JobServices } from "../jobs/services.ts";
import { DAY_MS } from "../jobs/usage/calendar.ts";
import { isMigrated } from "../load/db/migrate.ts";
import { removeOld } from "../load/runs/retention.ts";
import { type AlertServices, sendAlerts, stateOfFailure, statesOfRun, statesOfTime } from "./alerts.ts";
import { statesOfData } from "./business-alerts.ts";
import { retentionRules } from "../schemas/registry.ts";

type Services = Pick<JobServices, "config" | "db" | "clock" | "log">;

/** Requests within this time share one answer. */
const STATUS_LIFE_MS = 10_000;
const READINESS_LIFE_MS = 2_000;
/** The warehouse counts as unreachable after this time. */
const ANSWER_TIMEOUT_MS = 5_000;
/** Interval between checks of freshness and budgets. */
const WATCH_EVERY_MS = 5 * 60_000;

/** Creates the overview of a scheduler's current services: status, readiness and alerts. */
export function createOverview(services: () => Services, stopping: AbortSignal) {
  let forgottenAtMs = 0;
  let watchedAtMs = Number.NEGATIVE_INFINITY;
  const statusNow = async () => {
    try {
      return await withTimeout(readStatus(services(), { countsMembers: false }));
    } catch (error) {
      services().log.warn(describeForLog(error), "status_unreadable");
      return null;
    }
  };
  const status = cached(STATUS_LIFE_MS, statusNow);
  const answers = cached(READINESS_LIFE_MS, async () => {
    try {
      return await withTimeout(isMigrated(services().db));
    } catch {
      return false;
    }
  });
  return {
    /** Reads the status of all jobs, up to ten seconds old; null if the warehouse doesn't answer. */
    status: () => status(forgottenAtMs),
    statusNow,
    /** Readiness, and the codes of all reasons against it. */
    async readiness() {
      const reasons = [
        ...(stopping.aborted ? ["stopping"] : []),
        ...((await answers()) ? [] : ["warehouse_unreachable"]),
      ];
      return { ready: reasons.length === 0, reasons };
    },
    /** Drops the cached status. */
    forget() {
      forgottenAtMs = performance.now();
    },
    /** Sends alerts about freshness and budgets, at intervals. */
    async watch(current: Services) {
      if (performance.now() - watchedAtMs < WATCH_EVERY_MS) return;
      watchedAtMs = performance.now();
      await alertLateness(current);
    },
  };
}

async function withTimeout<Answer>(asked: Promise<Answer>): Promise<Answer> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error("no response in time")), ANSWER_TIMEOUT_MS);
  try {
    return await Promise.race([asked, late.promise]);
  } finally {
    clearTimeout(timer);
    asked.catch(() => {});
  }
}

/** Caches answers for a while; concurrent callers share one. Answers from before `notBeforeMs` count as old. */
export function cached<Answer>(
  lifeMs: number,
  ask: () => Promise<Answer>,
): (notBeforeMs?: number) => Promise<Answer> {
  let last: { readonly atMs: number; readonly answer: Promise<Answer> } | null = null;
  return (notBeforeMs = Number.NEGATIVE_INFINITY) => {
    const nowMs = performance.now();
    if (last === null || nowMs - last.atMs > lifeMs || last.atMs < notBeforeMs) {
      last = { atMs: nowMs, answer: ask() };
    }
    return last.answer;
  };
}

/** Sends alerts and applies retention after a run. Never fails the run. */
export async function concludeRun(
  services: Services,
  report: RunReport,
  options: {
    /** False for a shard; only whole runs apply retention. */
    readonly isWhole: boolean;
  },
): Promise<void> {
  const ofData = await statesOfData(services, report);
  await sendAlerts(services, [...statesOfRun(services.config, report), ...ofData], report.run_id);
  await alertLateness(services);
  if (options.isWhole) await removeOldRows(services);
}

/** Sends the alert of a run that failed before its first job. */
export async function alertRunFailure(services: AlertServices, error: unknown, runId: string): Promise<void> {
  await sendAlerts(services, [stateOfFailure(error)], runId);
}

async function alertLateness(services: Services): Promise<void> {
  if (services.config.alerts === null) return;
  try {
    const status = await readStatus(services, { countsMembers: false });
    await sendAlerts(services, statesOfTime(services.config, status), "");
  } catch (error) {
    services.log.warn(describeForLog(error), "alerts_failed");
  }
}

async function removeOldRows({ config, db, log }: Services): Promise<void> {
  const retentions = retentionRules.flatMap((rule) => {
    const { historyMs, operationsMs, rejectsMs } = config.retention;
    const settings = { history: historyMs, operations: operationsMs, rejects: rejectsMs };
    const keepMs = typeof rule.keep === "number" ? rule.keep * DAY_MS : settings[rule.keep];
    return keepMs === null ? [] : [{ rule, keepMs }];
  });
  try {
    const removed = await removeOld(db, retentions);
    const tables = Object.fromEntries(Object.entries(removed).filter(([, rows]) => rows > 0));
    if (Object.keys(tables).length > 0) log.info({ removed: tables }, "old_rows_removed");
  } catch (error) {
    log.warn(describeForLog(error), "retention_failed");
  }
}
