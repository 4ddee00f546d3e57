/** A BigQuery error. */
export class BigQueryFailure extends Error {
  override readonly name = "BigQueryFailure";
  /** Reason given by BigQuery (`accessDenied`, `notFound`), or the system error (`ECONNREFUSED`). */
  readonly code: string;
  /** HTTP status; null without a response, or if an accepted job failed. */
  readonly status: number | null;
  constructor(code: string, message: string, status: number | null, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.status = status;
  }
}

/** Transient reasons in Google's table of errors, and broken connections. */
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
  "UND_ERR_SOCKET",
  "UND_ERR_CONNECT_TIMEOUT",
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_BODY_TIMEOUT",
]);

/** True if the same request may succeed when retried. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof BigQueryFailure)) return false;
  return (
    TRANSIENT.has(error.code) || (error.status !== null && (error.status >= 500 || error.status === 429))
  );
}

/** Messages for a transaction cancelled in favor of another one: Google's, then two of the emulator. */
const CONFLICT =
  /due to concurrent (?:update|DML)|concurrent (?:transaction|update|DML)|Failed to commit|write-write conflict|Transaction conflict/i;

/** True if a statement was cancelled by a concurrent change of the same table; it changed nothing. */
export function isConflict(error: unknown): boolean {
  return error instanceof BigQueryFailure && CONFLICT.test(error.message);
}

/** True if a resource of the request doesn't exist. */
export function isNotFound(error: unknown): boolean {
  return error instanceof BigQueryFailure && error.code === "notFound";
}

/** True if a job was stopped, by its time limit or by someone. */
export function isStopped(error: unknown): boolean {
  return error instanceof BigQueryFailure && (error.code === "stopped" || error.code === "timeout");
}

/** True if the resource already exists. */
export function isDuplicate(error: unknown): boolean {
  return error instanceof BigQueryFailure && (error.code === "duplicate" || error.status === 409);
}

/** True if a value can't be converted; such messages quote values. */
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
