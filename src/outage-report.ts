import type { Clock } from "./clock.ts";
import type { Log } from "./log.ts";

/** Something that doesn't respond at the moment. */
interface Outage {
  /** In milliseconds since the epoch, like `untilMs`; the earliest counts. */
  readonly sinceMs: number;
  /** End of the attempts, or of the wait for a response, of which the latest counts. Null if unknown. */
  readonly untilMs: number | null;
  readonly isWaiting?: boolean;
  /** Status of the only responses, or code or short reason of a failed connection; null for no response. */
  readonly cause: string | null;
}

export interface OutageReport {
  /** Reports an outage once it lasts, also while nothing calls this, as long as something is tried. */
  lasts(outage: Outage): void;
  /** Ends an outage: there was a response. */
  back(): void;
  /** Stops reporting while nothing is tried. */
  stop(): void;
}

interface ReportOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Start of the events' names: `service` for `service_unreachable` and `service_back`. */
  readonly name: string;
  /** Subject of the sentences: `The service at https://api.example`. */
  readonly subject: string;
}

const FIRST_AFTER_MS = 10_000;
const AGAIN_AFTER_MS = 60_000;
const LOOK_EVERY_MS = 1000;
/** Something is tried at least once in this time, or not any more. */
const QUIET_MS = 90_000;

/**
 * Reports what doesn't respond, in the log and on the terminal: after ten seconds, at most once a minute, and once when it
 * is back.
 */
export function createOutageReport({ clock, log, name, subject }: ReportOptions): OutageReport {
  let outage: Outage | null = null;
  let triedAtMs = 0;
  let timer: NodeJS.Timeout | null = null;
  let isReported = false;
  let reportedAtMs = Number.NEGATIVE_INFINITY;

  function look(): void {
    if (outage === null) return;
    const nowMs = clock.now();
    const { sinceMs, untilMs } = outage;
    if (nowMs > Math.max(untilMs ?? 0, triedAtMs + QUIET_MS)) stop();
    else if (nowMs - sinceMs >= FIRST_AFTER_MS && nowMs - reportedAtMs >= AGAIN_AFTER_MS) {
      [isReported, reportedAtMs] = [true, nowMs];
      const until = untilMs === null ? null : instantOf(untilMs);
      const fields = { cause: outage.cause, since: instantOf(sinceMs), until };
      log.warn({ text: textOf(subject, outage), ...fields }, `${name}_unreachable`);
    }
  }

  function stop(): void {
    if (timer !== null) clearInterval(timer);
    timer = null;
  }

  return {
    lasts(latest) {
      if (latest.sinceMs > triedAtMs + QUIET_MS) [outage, isReported] = [null, false];
      const sinceMs = Math.min(latest.sinceMs, outage?.sinceMs ?? latest.sinceMs);
      // The longest wait counts; a new attempt says itself until when.
      const waitedMs = latest.isWaiting ? (outage?.untilMs ?? 0) : 0;
      const untilMs = Math.max(latest.untilMs ?? 0, waitedMs) || null;
      outage = { ...latest, sinceMs, untilMs, cause: latest.cause ?? outage?.cause ?? null };
      triedAtMs = clock.now();
      timer ??= setInterval(look, LOOK_EVERY_MS).unref();
      look();
    },
    back() {
      stop();
      if (outage !== null && isReported) {
        const seconds = Math.round((clock.now() - outage.sinceMs) / 1000);
        // A warning like the one that it ends, so that a terminal shows both.
        log.warn({ text: `${subject} responds again after ${seconds} s.`, seconds }, `${name}_back`);
      }
      [outage, isReported] = [null, false];
    },
    stop,
  };
}

/**
 * Runs work that connects to something, and reports it unless it calls `connected` or ends in time.
 * @param causeOf reason of a failure to connect; null for other errors
 * @param waitMs longest wait of the work; null if unknown
 */
export async function observe<Result>(
  outage: OutageReport | undefined,
  causeOf: (error: unknown) => string | null,
  work: (connected: () => void) => Promise<Result>,
  waitMs: number | null = null,
): Promise<Result> {
  if (!outage) return work(() => {});
  const sinceMs = Date.now();
  const untilMs = waitMs === null ? null : sinceMs + waitMs;
  const lasts = (cause: string | null) => outage.lasts({ sinceMs, untilMs, isWaiting: true, cause });
  const slow = setTimeout(() => lasts(null), FIRST_AFTER_MS).unref();
  const connected = () => clearTimeout(slow);
  try {
    const result = await work(connected);
    outage.back();
    return result;
  } catch (error) {
    const cause = causeOf(error);
    if (cause === null) outage.back();
    else {
      lasts(cause);
      // Unless it is tried again, nobody waits any more.
      outage.stop();
    }
    throw error;
  } finally {
    connected();
  }
}

function textOf(subject: string, { sinceMs, untilMs, isWaiting, cause }: Outage): string {
  const isStatus = /^[1-5]\d\d$/u.test(cause ?? "");
  const what = isStatus ? `has responded only with ${cause}` : "has not responded";
  const reason = cause === null || isStatus ? "" : ` (${cause})`;
  const end = untilMs === null ? "" : ` ${isWaiting ? "Waiting" : "Trying"} until ${timeOf(untilMs)} UTC.`;
  return `${subject} ${what} since ${timeOf(sinceMs)} UTC${reason}.${end}`;
}

const instantOf = (ms: number) => new Date(ms).toISOString();

/** Time of day in UTC: `04:15:00`. */
const timeOf = (ms: number) => instantOf(ms).slice(11, 19);
