import type { Clock } from "../clock.ts";
import { InterruptedError, LockLostError, StopRunError } from "../errors.ts";
import type { Log } from "../log.ts";

/**
 * Retries work while the warehouse is unreachable, so the work must be repeatable. Rejects with the original error if the outage lasts
 * too long, and with an InterruptedError or a LockLostError if the job must stop. One per job.
 */
export type RetryWhileDown = <Result>(work: () => Promise<Result>) => Promise<Result>;

interface RetryOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Time limit from the first failure, of all work together and of work that fails while other work succeeds. */
  readonly retryForMs: number;
  readonly job: string;
}

const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 10_000;

export function createRetryWhileDown({ clock, log, signal, retryForMs, job }: RetryOptions): RetryWhileDown {
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

  return async (work) => {
    let firstFailureMs = Number.POSITIVE_INFINITY;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
      try {
        const result = await work();
        noteSuccess();
        return result;
      } catch (error) {
        if (!(error instanceof StopRunError) || error.code !== "database_unreachable") throw error;
        // Other work may keep succeeding, but work that always fails must end too.
        firstFailureMs = Math.min(firstFailureMs, noteFailure(error));
        const leftMs = firstFailureMs + retryForMs - clock.now();
        if (leftMs <= 0) throw error;
        await pause(Math.min(pauseMs, leftMs));
      }
    }
  };
}

/** Error for an aborted job: its lock was lost, or the user stopped it. */
export function stopReason({ reason }: AbortSignal): Error {
  return reason instanceof LockLostError ? reason : new InterruptedError("Stopped by a signal.");
}
