import type { Clock } from "../clock.ts";
import { StopRunError } from "../errors.ts";
import type { Log } from "../log.ts";
import { stopReason } from "./stop-reason.ts";

/** Retries work while the warehouse can't be reached; one per job. */
export interface Outage {
  /**
   * Retries work while the warehouse can't be reached, so the work has to be repeatable. Rejects with the reason when the
   * outage lasts too long, and with an InterruptedError or a LockLostError when the job has to stop.
   */
  outlast<Result>(work: () => Promise<Result>): Promise<Result>;
}

/** Options of an outage. */
export interface OutageOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Counted from the first failure: of all work together, and of each that never succeeds while others do. */
  readonly retryForMs: number;
  /** For the log. */
  readonly job: string;
}

const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 10_000;

/** True if the warehouse may come back by itself. */
export function isUnreachable(error: unknown): error is StopRunError {
  return error instanceof StopRunError && error.code === "database_unreachable";
}

/** Starts with a warehouse that can be reached. */
export function createOutage({ clock, log, signal, retryForMs, job }: OutageOptions): Outage {
  let sinceMs: number | null = null;
  let back = new AbortController();

  function noteFailure(error: StopRunError): number {
    if (sinceMs === null) {
      sinceMs = clock.now();
      log.warn({ job, reason: error.message, retry_for_seconds: retryForMs / 1000 }, "warehouse_unreachable");
    }
    return sinceMs;
  }

  function noteSuccess(): void {
    if (sinceMs === null) return;
    log.info({ job, seconds: Math.round((clock.now() - sinceMs) / 1000) }, "warehouse_back");
    sinceMs = null;
    // Ends all waits.
    back.abort();
    back = new AbortController();
  }

  async function pause(milliseconds: number): Promise<void> {
    const end = AbortSignal.any([signal, back.signal]);
    if (!signal.aborted) await clock.sleep(milliseconds, end).catch(() => {});
    if (signal.aborted) throw stopReason(signal);
  }

  return {
    async outlast(work) {
      let firstFailureMs = Number.POSITIVE_INFINITY;
      for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
        try {
          const result = await work();
          noteSuccess();
          return result;
        } catch (error) {
          if (!isUnreachable(error)) throw error;
          // Other work may succeed all the while: what only this work fails at must end too.
          firstFailureMs = Math.min(firstFailureMs, noteFailure(error));
          const leftMs = firstFailureMs + retryForMs - clock.now();
          if (leftMs <= 0) throw error;
          await pause(Math.min(pauseMs, leftMs));
        }
      }
    },
  };
}
