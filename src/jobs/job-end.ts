import {
  codeOf,
  FixConfigurationError,
  InterruptedError,
  type LimitedBy,
  LimitReachedError,
  LockLostError,
  OWN_LIMITS,
  StopJobError,
  StopRunError,
} from "../errors.ts";
import type { RunEnd } from "../load/lookup.ts";

/** How a job ended. */
export interface JobEnd {
  /** `locked`: another process has the job, so the books are its own. */
  readonly status: RunEnd["status"] | "locked";
  readonly limitedBy: LimitedBy | null;
  readonly error: { readonly code: string; readonly message: string } | null;
  /** No other job of this run can go on either. */
  readonly stopsRun: boolean;
  /** What was thrown, for the log; undefined when nothing was. */
  readonly cause?: unknown;
}

/** All that was due has been dealt with. */
export const succeeded: JobEnd = { status: "succeeded", limitedBy: null, error: null, stopsRun: false };

/** Stopped by a signal, or not begun because of it. */
export const interrupted: JobEnd = { ...succeeded, status: "interrupted" };

/** The user's own cap or budget was reached, which is no error. */
export function capped(limitedBy: LimitedBy): JobEnd {
  return { ...succeeded, status: "limited", limitedBy };
}

/** Failed. */
export function failed(code: string, message: string): JobEnd {
  return { ...succeeded, status: "failed", error: { code, message } };
}

/** Was not begun, because something else failed. */
export function skipped(code: string, message: string): JobEnd {
  return { ...succeeded, status: "skipped", error: { code, message } };
}

/** Was not begun or not finished, because another process has the job. */
export function locked(code: string, message: string): JobEnd {
  return { ...succeeded, status: "locked", error: { code, message } };
}

/** How a job ended that something thrown has ended. */
export function endOfError(error: unknown): JobEnd {
  if (error instanceof InterruptedError) return interrupted;
  if (error instanceof LockLostError) return locked(error.code, error.message);
  if (error instanceof LimitReachedError) {
    if (OWN_LIMITS.includes(error.code)) return capped(error.code);
    return { ...failed(error.code, error.message), status: "limited", limitedBy: error.code };
  }
  const end = failed(codeOf(error) ?? "internal", isOurs(error) ? error.message : describeForeign(error));
  return { ...end, stopsRun: error instanceof StopRunError, cause: error };
}

function isOurs(error: unknown): error is Error {
  return [FixConfigurationError, StopRunError, StopJobError].some((kind) => error instanceof kind);
}

/** Drivers and parsers quote values in their messages, so only class and code of such an error are told. */
function describeForeign(error: unknown): string {
  const parts = [error instanceof Error ? error.name : typeof error, codeOf(error)];
  return (
    `Something went wrong that person-etl doesn't know (${parts.filter((part) => part !== null).join(": ")}). ` +
    "What was committed before is kept; the log has the place."
  );
}
