/** A BigQuery error. Its message never holds a value of a record: statements carry them as parameters. */
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

/** Transient reasons in Google's table of errors. */
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

/** True if the same request may succeed a moment later. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof BigQueryFailure)) return false;
  return (
    TRANSIENT.has(error.code) || (error.status !== null && (error.status >= 500 || error.status === 429))
  );
}

/** True if the failure says that a value can't be converted; such messages repeat values. */
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
