import type { Clock } from "../clock.ts";
import { InterruptedError, LockLostError } from "../errors.ts";
import { type Db, WAREHOUSE_PATH } from "../load/db/db.ts";
import { DatabaseUnreachableError } from "../load/db/failures.ts";

interface RetryOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Time limit from the first failure, of all work together and of work that fails while other work succeeds. */
  readonly retryForMs: number;
}

const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 10_000;

/**
 * The warehouse of one job, which waits out outages: all its transactions but `preview` and `lockTransaction` are repeated while it is
 * unreachable. They reject with the original
 * error if the outage lasts too long, and with an InterruptedError or a LockLostError if the job must stop.
 */
export function retryWhileDown(db: Db, { clock, signal, retryForMs }: RetryOptions): Db {
  let sinceMs: number | null = null;
  let back = new AbortController();

  function noteFailure(): number {
    sinceMs ??= clock.now();
    db.outage.lasts({ sinceMs, untilMs: sinceMs + retryForMs, cause: null });
    return sinceMs;
  }

  function noteSuccess(): void {
    if (sinceMs === null) return;
    db.outage.back();
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

  async function retry<Result>(work: () => Promise<Result>): Promise<Result> {
    let firstFailureMs = Number.POSITIVE_INFINITY;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
      try {
        const result = await work();
        noteSuccess();
        return result;
      } catch (error) {
        // Work may also fail as an input's database is down, of which nobody would be informed meanwhile.
        if (!(error instanceof DatabaseUnreachableError) || error.path !== WAREHOUSE_PATH) throw error;
        // Other work may keep succeeding, but work that always fails must end too.
        firstFailureMs = Math.min(firstFailureMs, noteFailure());
        const leftMs = firstFailureMs + retryForMs - clock.now();
        if (leftMs <= 0) throw error;
        await pause(Math.min(pauseMs, leftMs));
      }
    }
  }

  return {
    ...db,
    transaction: (...args) => retry(() => db.transaction(...args)),
    rows: (statement) => retry(() => db.rows(statement)),
    one: (statement) => retry(() => db.one(statement)),
    pluck: (statement) => retry(() => db.pluck(statement)),
    change: (statement) => retry(() => db.change(statement)),
    snapshot: (work) => retry(() => db.snapshot(work)),
  };
}

/** Error for an aborted job: its lock was lost, or the user stopped it. */
export function stopReason({ reason }: AbortSignal): Error {
  return reason instanceof LockLostError ? reason : new InterruptedError("Stopped by a signal.");
}
