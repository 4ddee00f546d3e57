import { isMigrated } from "../load/db/setup.ts";
import type { RunReport } from "../jobs/run.ts";
import type { JobServices } from "../jobs/services.ts";
import { readStatus, type StatusReport } from "../jobs/report/status.ts";
import { concludeRun, tellOfFailure, tellOfTime } from "./conclude.ts";
import { describeForLog } from "./log-fields.ts";

/** Readers of pages that come closer together get the same answer. */
const STATUS_LIFE_MS = 10_000;
const READINESS_LIFE_MS = 2_000;
/** A warehouse that hasn't answered by then is out of reach. */
const PATIENCE_MS = 5_000;
/** How often states that time alone changes are looked at. */
const WATCH_EVERY_MS = 5 * 60_000;

/** What a scheduler knows and tells of its jobs. */
export interface Overview {
  /** The status of all jobs; null where the warehouse doesn't answer. */
  readonly status: () => Promise<StatusReport | null>;
  readonly readiness: () => Promise<{ readonly ready: boolean; readonly reasons: readonly string[] }>;
  /** The next status is read anew. */
  readonly forget: () => void;
  /** Alerts and retention after a run. */
  readonly conclude: (services: JobServices, report: RunReport) => Promise<void>;
  /** Alert after a run of which nothing came. */
  readonly tellOfFailure: (services: JobServices, error: unknown, runId: string) => Promise<void>;
  /** Alerts about what time alone changes; looks now and then. */
  readonly watch: (services: JobServices) => Promise<void>;
}

/** An overview over whatever the services are at the moment. */
export function createOverview(services: () => JobServices, stopping: AbortSignal): Overview {
  let forgottenAtMs = 0;
  let watchedAtMs = Number.NEGATIVE_INFINITY;
  const status = remembered(STATUS_LIFE_MS, async () => {
    try {
      return await withPatience(readStatus(services()));
    } catch (error) {
      services().log.warn(describeForLog(error), "status_unreadable");
      return null;
    }
  });
  const answers = remembered(READINESS_LIFE_MS, async () => {
    try {
      return await withPatience(isMigrated(services().db));
    } catch {
      return false;
    }
  });
  return {
    status: () => status(forgottenAtMs),
    async readiness() {
      const reasons = [
        ...(stopping.aborted ? ["stopping"] : []),
        ...((await answers(0)) ? [] : ["warehouse_unreachable"]),
      ];
      return { ready: reasons.length === 0, reasons };
    },
    forget() {
      forgottenAtMs = performance.now();
    },
    tellOfFailure,
    conclude: (of, report) => concludeRun(of, report, { isWhole: true }),
    async watch(of) {
      if (performance.now() - watchedAtMs < WATCH_EVERY_MS) return;
      watchedAtMs = performance.now();
      await tellOfTime(of);
    },
  };
}

/** Asks again only after a while; whoever asks meanwhile shares the answer. */
function remembered<Answer>(
  lifeMs: number,
  ask: () => Promise<Answer>,
): (notBeforeMs: number) => Promise<Answer> {
  let last: { readonly atMs: number; readonly answer: Promise<Answer> } | null = null;
  return (notBeforeMs) => {
    const nowMs = performance.now();
    if (last === null || nowMs - last.atMs > lifeMs || last.atMs < notBeforeMs) {
      last = { atMs: nowMs, answer: ask() };
    }
    return last.answer;
  };
}

async function withPatience<Answer>(asked: Promise<Answer>): Promise<Answer> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error("no answer in time")), PATIENCE_MS);
  try {
    return await Promise.race([asked, late.promise]);
  } finally {
    clearTimeout(timer);
    asked.catch(() => {});
  }
}
