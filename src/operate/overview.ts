import { isMigrated } from "../load/db/setup.ts";
import type { RunReport } from "../jobs/run.ts";
import type { JobServices } from "../jobs/services.ts";
import { readStatus, type StatusReport } from "../jobs/report/status.ts";
import { concludeRun, alertRunFailure, alertLateness } from "./conclude.ts";
import { describeForLog } from "./log-fields.ts";
import { remembered } from "./remembered.ts";

/** Requests within this time share one answer. */
const STATUS_LIFE_MS = 10_000;
const READINESS_LIFE_MS = 2_000;
/** The warehouse counts as unreachable after this time. */
const ANSWER_TIMEOUT_MS = 5_000;
/** Interval between checks of freshness and budgets. */
const WATCH_EVERY_MS = 5 * 60_000;

/** Status, alerts and retention of a scheduler. */
interface Overview {
  /** Status of all jobs, up to ten seconds old; null if the warehouse doesn't answer. */
  readonly status: () => Promise<StatusReport | null>;
  /** The same, read now. */
  readonly statusNow: () => Promise<StatusReport | null>;
  readonly readiness: () => Promise<{ readonly ready: boolean; readonly reasons: readonly string[] }>;
  /** Drops the cached status. */
  readonly forget: () => void;
  /** Sends alerts and applies retention after a run. */
  readonly conclude: (services: JobServices, report: RunReport) => Promise<void>;
  /** Sends the alert of a run that failed before its first job. */
  readonly alertRunFailure: (services: JobServices, error: unknown, runId: string) => Promise<void>;
  /** Sends alerts about freshness and budgets, at intervals. */
  readonly watch: (services: JobServices) => Promise<void>;
}

/** Creates the overview of the current services. */
export function createOverview(
  services: () => Pick<JobServices, "config" | "db" | "clock" | "log">,
  stopping: AbortSignal,
): Overview {
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
  const status = remembered(STATUS_LIFE_MS, statusNow);
  const answers = remembered(READINESS_LIFE_MS, async () => {
    try {
      return await withTimeout(isMigrated(services().db));
    } catch {
      return false;
    }
  });
  return {
    status: () => status(forgottenAtMs),
    statusNow,
    async readiness() {
      const reasons = [
        ...(stopping.aborted ? ["stopping"] : []),
        ...((await answers()) ? [] : ["warehouse_unreachable"]),
      ];
      return { ready: reasons.length === 0, reasons };
    },
    forget() {
      forgottenAtMs = performance.now();
    },
    alertRunFailure,
    conclude: (current, report) => concludeRun(current, report, { isWhole: true }),
    async watch(current) {
      if (performance.now() - watchedAtMs < WATCH_EVERY_MS) return;
      watchedAtMs = performance.now();
      await alertLateness(current);
    },
  };
}

async function withTimeout<Answer>(asked: Promise<Answer>): Promise<Answer> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error("no answer in time")), ANSWER_TIMEOUT_MS);
  try {
    return await Promise.race([asked, late.promise]);
  } finally {
    clearTimeout(timer);
    asked.catch(() => {});
  }
}
