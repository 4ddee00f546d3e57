import type { Clock } from "../clock.ts";
import { InterruptedError, LockLostError, StopRunError } from "../errors.ts";
import type { OutageReport } from "../outage-report.ts";

/**
 * Retries work while the warehouse is unreachable, so the work must be repeatable. Rejects with the original error if the outage lasts
 * too long, and with an InterruptedError or a LockLostError if the job must stop. One per job.
 */
export type RetryWhileDown = <Result>(work: () => Promise<Result>) => Promise<Result>;

interface RetryOptions {
  readonly clock: Clock;
  readonly outage: OutageReport;
  readonly signal: AbortSignal;
  /** Time limit from the first failure, of all work together and of work that fails while other work succeeds. */
  readonly retryForMs: number;
}

const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 10_000;

export function createRetryWhileDown({ clock, outage, signal, retryForMs }: RetryOptions): RetryWhileDown {
  let sinceMs: number | null = null;
  let back = new AbortController();

  function noteFailure(): number {
    sinceMs ??= clock.now();
    outage.lasts({ sinceMs, untilMs: sinceMs + retryForMs, cause: null });
    return sinceMs;
  }

  function noteSuccess(): void {
    if (sinceMs === null) return;
    outage.back();
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
        firstFailureMs = Math.min(firstFailureMs, noteFailure());
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
