import {
  codeOf,
  InterruptedError,
  isOwnError,
  type LimitedBy,
  LimitReachedError,
  LockLostError,
  OWN_LIMITS,
  StopRunError,
  unexpectedMessage,
} from "../errors.ts";
import type { RunEnd } from "../load/runs/runs.ts";

/** End of a job. */
export interface JobEnd {
  /** `locked`: another process holds the job and records the run. */
  readonly status: RunEnd["status"] | "locked";
  readonly limitedBy: LimitedBy | null;
  readonly error: { readonly code: string; readonly message: string } | null;
  /** True if no other job of this run can continue. */
  readonly stopsRun: boolean;
  /** Thrown error, for the log; undefined for none. */
  readonly cause?: unknown;
}

/** Finished without error. */
export const succeeded: JobEnd = { status: "succeeded", limitedBy: null, error: null, stopsRun: false };

/** Stopped by a signal, or skipped because of it. */
export const interrupted: JobEnd = { ...succeeded, status: "interrupted" };

/** The user's cap or budget was reached, which is not an error. */
export function capped(limitedBy: LimitedBy): JobEnd {
  return { ...succeeded, status: "limited", limitedBy };
}

/** Failed with an error. */
export function failed(code: string, message: string): JobEnd {
  return { ...succeeded, status: "failed", error: { code, message } };
}

/** Skipped because another job failed. */
export function skipped(code: string, message: string): JobEnd {
  return { ...succeeded, status: "skipped", error: { code, message } };
}

/** Not run or not finished, because another process holds the job. */
export function locked(code: string, message: string): JobEnd {
  return { ...succeeded, status: "locked", error: { code, message } };
}

/**
 * Maps a thrown error to a job's end.
 * @param doing interrupted work, for errors that don't name it: `selecting what is due`
 */
export function endOfError(error: unknown, doing: string): JobEnd {
  if (error instanceof InterruptedError) return interrupted;
  if (error instanceof LockLostError) return locked(error.code, error.message);
  if (error instanceof LimitReachedError) {
    if (OWN_LIMITS.includes(error.code)) return capped(error.code);
    return { ...failed(error.code, error.message), status: "limited", limitedBy: error.code };
  }
  const end = failed(
    codeOf(error) ?? "internal",
    isOwnError(error) ? error.message : unexpectedMessage(error, doing),
  );
  return { ...end, stopsRun: error instanceof StopRunError, cause: error };
}
