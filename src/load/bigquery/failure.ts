/** What BigQuery answered instead of a result. Its message never holds a value of a record: statements carry them as parameters. */
export class BigQueryFailure extends Error {
  override readonly name = "BigQueryFailure";
  /** BigQuery's word for the cause (`accessDenied`, `notFound`), or the system's (`ECONNREFUSED`). */
  readonly code: string;
  /** HTTP status; null where none came, or where a job failed that was accepted. */
  readonly status: number | null;
  constructor(code: string, message: string, status: number | null, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.status = status;
  }
}

/** Causes that pass by themselves, by Google's table of errors. */
const TRANSIENT: ReadonlySet<string> = new Set([
  "backendError",
  "internalError",
  "jobBackendError",
  "jobInternalError",
  "jobRateLimitExceeded",
  "rateLimitExceeded",
  "tableUnavailable",
  "ECONNRESET",
  "ECONNREFUSED",
  "EPIPE",
  "ETIMEDOUT",
  "EAI_AGAIN",
  "ESOCKETTIMEDOUT",
  "UND_ERR_SOCKET",
]);

/** Whether the same request may succeed a moment later. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof BigQueryFailure)) return false;
  return (
    TRANSIENT.has(error.code) || (error.status !== null && (error.status >= 500 || error.status === 429))
  );
}

/** Google's words for a transaction that was cancelled in favour of another one; the last are the emulator's. */
const CONFLICT =
  /aborted due to concurrent update|due to concurrent update|concurrent (?:transaction|update|DML)|Failed to commit|write-write conflict|Transaction conflict/i;

/** Whether a transaction or statement lost against another one that changed the same table: it left nothing behind. */
export function isConflict(error: unknown): boolean {
  return error instanceof BigQueryFailure && CONFLICT.test(error.message);
}

/** Whether something that was named doesn't exist. */
export function isNotFound(error: unknown): boolean {
  return error instanceof BigQueryFailure && error.code === "notFound";
}

/** Whether something exists already. */
export function isDuplicate(error: unknown): boolean {
  return error instanceof BigQueryFailure && (error.code === "duplicate" || error.status === 409);
}

/** Whether a value can't be stored: of the rows of a load, or of a statement's conversion. */
export function isDataFault(error: unknown): boolean {
  if (!(error instanceof BigQueryFailure)) return false;
  if (error.code === "invalid") return true;
  return (
    error.code === "invalidQuery" &&
    /Bad \w+ value|Could not (?:cast|convert|parse)|out of range|Invalid (?:NUMERIC|BIGNUMERIC|date|timestamp|JSON)|Conversion/i.test(
      error.message,
    )
  );
}

/** Texts of our own that a script ends with, after {@link ABORT}. */
const ABORT = "person-etl: ";

/** Why a script of ours ends itself. */
export type AbortCause = "lock_lost" | "erased_meanwhile";

/** The message with which a script of ours ends itself, rolled back. */
export function abortMessage(cause: AbortCause): string {
  return `${ABORT}${cause}`;
}

/** Whether a script ended itself for this cause. */
export function isAborted(error: unknown, cause: AbortCause): boolean {
  return error instanceof BigQueryFailure && error.message.includes(abortMessage(cause));
}
