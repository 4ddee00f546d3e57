import { adviceFor } from "./advice.ts";

/** One problem in the user's configuration or data, with the place to fix. */
export interface Problem {
  /** Configuration path (`jobs.enrich_customers.refresh_after`), flag, table or column. */
  readonly path: string;
  readonly message: string;
  /** 1-based line in the configuration file, if any. */
  readonly line?: number;
  readonly hint?: string;
}

class CodedError<Code extends string = string> extends Error {
  readonly code: Code;
  constructor(code: Code, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The user has to fix the configuration, a privilege or an address; nothing was changed. Exit code 2. */
export class FixConfigurationError extends CodedError {
  override readonly name = "FixConfigurationError";
  readonly problems: readonly Problem[];
  constructor(code: string, message: string, problems: readonly Problem[] = [], options?: ErrorOptions) {
    super(code, message, options);
    this.problems = problems;
  }
}

/** No job of this run can continue: the key is rejected, the service or the warehouse is unreachable. Exit code 1. */
export class StopRunError extends CodedError {
  override readonly name = "StopRunError";
}

/** This job can't continue, but others can: an endpoint without access, a mapping rejected by the service. Exit code 1. */
export class StopJobError extends CodedError {
  override readonly name = "StopJobError";
}

/** Limit that ended a job before everything due was sent. */
export type LimitedBy =
  | "max_records_per_run"
  | "max_records"
  | "budget_day"
  | "budget_month"
  | "credits"
  | "quota"
  | "parameters_changed"
  | "confirmation"
  | "deadline"
  | "unlock_ceiling"
  | "missing_rows"
  | "publication_refused";

/** Limits set by the user; reaching one is not an error (exit 0). All others require an action by the user (exit 3). */
export const OWN_LIMITS: readonly LimitedBy[] = [
  "max_records_per_run",
  "max_records",
  "budget_day",
  "budget_month",
  "deadline",
];

/** The job stopped at a limit; all results so far are kept. Exit code 0 or 3 (see {@link OWN_LIMITS}). */
export class LimitReachedError extends CodedError<LimitedBy> {
  override readonly name = "LimitReachedError";
}

/** Another process took over this job; this one must not send or write anything more. Exit code 4. */
export class LockLostError extends Error {
  override readonly name = "LockLostError";
  readonly code = "lock_lost";
}

/** Another process is running this job; nothing was changed. Exit code 4. */
export class JobLockedError extends Error {
  override readonly name = "JobLockedError";
  readonly code = "locked";
}

/** Stopped by a signal after a clean commit; not a failure. Exit code 130 (SIGINT) or 143 (SIGTERM). */
export class InterruptedError extends Error {
  override readonly name = "InterruptedError";
  readonly code = "interrupted";
}

const OWN_ERRORS = [
  FixConfigurationError,
  StopRunError,
  StopJobError,
  LimitReachedError,
  LockLostError,
  JobLockedError,
  InterruptedError,
];

/** True for an error of this program, whose message quotes no values; those of drivers and parsers do. */
export function isOwnError(error: unknown): error is Error {
  return OWN_ERRORS.some((kind) => error instanceof kind);
}

/** Text of a thrown value, for a message or a log line. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Stable code of a thrown value (`ECONNREFUSED`, `42P01`, …), or null. */
export function codeOf(error: unknown): string | null {
  if (typeof error === "object" && error !== null && "code" in error) {
    const { code } = error;
    return typeof code === "string" ? code : null;
  }
  return null;
}

/** The message if JavaScript itself created it, else null. */
export function languageOwnMessage(error: Error): string | null {
  const isOwn = codeOf(error) === null && (error instanceof TypeError || error instanceof ReferenceError);
  return isOwn ? error.message : null;
}

/** Names of SQLSTATEs that no rule expects, and of the classes of all others. */
const SQLSTATES: Readonly<Record<string, string>> = {
  "0A": "feature not supported",
  "21": "cardinality violation",
  "22": "data exception",
  "22021": "character not in the encoding",
  "22P05": "character not in the encoding",
  "23": "integrity constraint violation",
  "25": "invalid transaction state",
  "25P03": "idle transaction timeout",
  "25P04": "transaction timeout",
  "2BP01": "dependent objects exist",
  "40001": "serialization failure",
  "40P01": "deadlock",
  "42": "syntax error or access rule violation",
  "42501": "insufficient privilege",
  "42703": "undefined column",
  "42704": "undefined object",
  "42883": "undefined function",
  "42P01": "undefined table",
  "42P07": "duplicate table",
  "53": "insufficient resources",
  "53100": "disk full",
  "53200": "out of memory",
  "53400": "configuration limit exceeded",
  "54": "program limit exceeded",
  "55": "object not in the required state",
  "55P03": "lock not available",
  "57": "operator intervention",
  "57014": "query canceled",
  "58": "system error",
  "58030": "I/O error",
  "58P01": "undefined file",
  "58P02": "duplicate file",
  F0: "configuration file error",
  P0: "PL/pgSQL error",
  P0001: "raised by a function or trigger",
  XX: "internal error",
  XX001: "data corrupted",
  XX002: "index corrupted",
};

const LOG_OF_SERVER = "The log of the database server has its message and statement";

/** Next steps by class of SQLSTATE. */
const NEXT_STEPS: Readonly<Record<string, string>> = {
  "42": `A table, column or function is not as this version created it: run \`person-etl migrate\`, then \`person-etl check\`. ${LOG_OF_SERVER}.`,
  "57": `An administrator or a time limit ended the statement: run again. ${LOG_OF_SERVER}.`,
};

/** SQLSTATE of an error of Postgres with its name (`58P01, undefined file`), or null. */
export function sqlStateOf(error: unknown): string | null {
  const code = codeOf(error) ?? "";
  if (!(error instanceof Error && "severity" in error) || !/^[0-9A-Z]{5}$/.test(code)) return null;
  const name = SQLSTATES[code] ?? SQLSTATES[code.slice(0, 2)];
  return name === undefined ? code : `${code}, ${name}`;
}

const databases = new WeakMap<object, string>();

/** Remembers which database reported an error, for {@link unexpectedMessage}. */
export function nameDatabase(error: unknown, name: string): void {
  if (typeof error === "object" && error !== null) databases.set(error, name);
}

/**
 * Message of an error that is not ours: its class, its code, and its text only if JavaScript itself created it, because
 * drivers and parsers quote values. The log has the places of its stack trace at level debug.
 */
export function unexpectedMessage(error: unknown, doing: string): string {
  const code = codeOf(error);
  if (code === "EMFILE" || code === "ENFILE") {
    const { means, next } = adviceFor(code);
    return `${means} ${next}`;
  }
  const sqlState = sqlStateOf(error);
  if (sqlState !== null) {
    const name = databases.get(Object(error)) ?? "The database";
    const next = NEXT_STEPS[sqlState.slice(0, 2)] ?? `${LOG_OF_SERVER}; fix the cause and run again.`;
    return `${name} reported an unexpected error while ${doing} (SQLSTATE ${sqlState}). ${next} Completed work is kept.`;
  }
  const parts =
    error instanceof Error ? [error.name, codeOf(error), languageOwnMessage(error)] : ["no error object"];
  return (
    `Unexpected error while ${doing} (${parts.filter((part) => part !== null).join(": ")}). ` +
    "Completed work is kept. Run again with --log-level debug to see where it happened; docs/operating.md says what else to look at."
  );
}

/** Log fields of a thrown value: class and code only, since drivers quote values in their messages. */
export function describeForLog(error: unknown): {
  readonly error_name: string;
  readonly code: string | null;
} {
  return { error_name: error instanceof Error ? error.name : typeof error, code: codeOf(error) };
}
