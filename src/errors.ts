/**
 * Errors, one class per recovery: who has to do what before the same command can succeed.
 * Each carries a stable `code` per cause; the message says what was tried, on what, what came back and what to do.
 * No message holds a record's values, a name, an address or a key.
 */

/** One thing that is wrong with what the user gave us, with the place to mend it. */
export interface Problem {
  /** Where: a configuration path (`jobs.enrich_customers.refresh_after`), a flag, a table or a column. */
  readonly path: string;
  /** What is wrong, as a sentence. */
  readonly message: string;
  /** 1-based line in the configuration file, where there is one. */
  readonly line?: number;
  /** What to do about it. */
  readonly hint?: string;
}

/** The user has to mend the configuration, a right or an address; nothing was touched. Exit code 2. */
export class FixConfigurationError extends Error {
  override readonly name = "FixConfigurationError";
  readonly code: string;
  readonly problems: readonly Problem[];
  constructor(code: string, message: string, problems: readonly Problem[] = [], options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.problems = problems;
  }
}

/** No job of this run can go on: the key is rejected, the service or the warehouse is gone. Exit code 1. */
export class StopRunError extends Error {
  override readonly name = "StopRunError";
  readonly code: string;
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** This job can't go on, others may: a route the key may not call, a mapping the service refuses. Exit code 1. */
export class StopJobError extends Error {
  override readonly name = "StopJobError";
  readonly code: string;
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** What ended a job before all that was due had been sent. */
export type LimitedBy =
  | "max_records_per_run"
  | "max_records"
  | "budget_day"
  | "budget_month"
  | "credits"
  | "quota"
  | "parameters_changed"
  | "confirmation"
  | "missing_rows"
  | "publication_refused";

/** The limits that the user set: reaching one is not an error (exit 0); all others want something of the user (exit 3). */
export const OWN_LIMITS: readonly LimitedBy[] = [
  "max_records_per_run",
  "max_records",
  "budget_day",
  "budget_month",
];

/** The job stopped at a limit; everything done so far is kept. Exit code 0 or 3 (see {@link OWN_LIMITS}). */
export class LimitReachedError extends Error {
  override readonly name = "LimitReachedError";
  readonly code: LimitedBy;
  constructor(code: LimitedBy, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Another process has taken this job over: nothing more may be sent or written for it. Exit code 4. */
export class LockLostError extends Error {
  override readonly name = "LockLostError";
  readonly code = "lock_lost";
}

/** Another process runs this job: nothing was changed, and nothing can be until it has ended. Exit code 4. */
export class JobLockedError extends Error {
  override readonly name = "JobLockedError";
  readonly code = "locked";
}

/** Stopped by a signal after a clean commit; not a failure. Exit code 130 (SIGINT) or 143 (SIGTERM). */
export class InterruptedError extends Error {
  override readonly name = "InterruptedError";
  readonly code = "interrupted";
}

/** The text of anything thrown, for a message or a log line. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The stable code of anything thrown (`ECONNREFUSED`, `42P01`, …), or null. */
export function codeOf(error: unknown): string | null {
  if (typeof error === "object" && error !== null && "code" in error) {
    const { code } = error;
    return typeof code === "string" ? code : null;
  }
  return null;
}
