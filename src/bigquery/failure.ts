import { quoteQualified } from "./sql.ts";
import { FixConfigurationError, type Problem, StopRunError } from "../errors.ts";
import { connectHint } from "../http-agent.ts";

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

export function isNotFound(error: unknown): boolean {
  return error instanceof BigQueryFailure && error.code === "notFound";
}

/** Result of a request; null if its resource doesn't exist. */
export async function orMissing<Result>(request: Promise<Result>): Promise<Result | null> {
  try {
    return await request;
  } catch (error) {
    if (isNotFound(error)) return null;
    throw error;
  }
}

/** True if a job was stopped, by its time limit or by someone. */
export function isStopped(error: unknown): boolean {
  return error instanceof BigQueryFailure && (error.code === "stopped" || error.code === "timeout");
}

export function isDuplicate(error: unknown): boolean {
  return error instanceof BigQueryFailure && (error.code === "duplicate" || error.status === 409);
}

/** True if a value can't be converted; such messages quote values. */
function isDataFault(error: unknown): boolean {
  if (!(error instanceof BigQueryFailure)) return false;
  if (error.code === "invalid") return true;
  return (
    error.code === "invalidQuery" &&
    /Bad \w+ value|Could not (?:cast|convert|parse)|out of range|Invalid (?:NUMERIC|BIGNUMERIC|date|timestamp|JSON)|Conversion/i.test(
      error.message,
    )
  );
}

/** A connection or destination as named in messages. */
export interface NamedProject {
  readonly project: string;
  readonly location: string | null;
  /** Project that pays for jobs, if it is another one. */
  readonly billingProject?: string;
  /** Path in the configuration: `connections.lake`, `publish.analytics`. */
  readonly path: string;
  /** Datasets that are written; empty if inputs are read. */
  readonly datasets: readonly string[];
}

/** Converts a failure of BigQuery into an error with a remedy; returns other errors unchanged. */
export function explainFailure(error: unknown, place: NamedProject): unknown {
  if (!(error instanceof BigQueryFailure)) return error;
  const subject = `BigQuery project ${place.project} (${place.path})`;
  const stop = (code: string, text: string) =>
    new StopRunError(code, `${subject} can't be used: ${text}`, { cause: error });
  if (isTransient(error)) {
    return stop("database_unreachable", `${describe(error)}. Run again later; everything committed is kept.`);
  }
  if (isConflict(error)) {
    return stop(
      "destination_busy",
      "other statements kept changing the same tables. Run them at another time, or less often; nothing is lost.",
    );
  }
  if (error.code === "quotaExceeded") {
    return stop(
      "destination_quota",
      `a quota is used up (${error.message}). Nothing is lost; run again later.`,
    );
  }
  const problem = problemOf(error, place);
  if (!problem) return error;
  const text = `${subject} can't be used: ${problem.message}.`;
  return new FixConfigurationError("database_refused", text, [problem], { cause: error });
}

/** Problem of the configuration, by BigQuery's reason; null for any other failure. */
function problemOf({ code, message }: BigQueryFailure, place: NamedProject): Problem | null {
  const { project, billingProject = project, location, path: at } = place;
  const payer = billingProject === project ? ".project" : ".billing_project";
  const problem = (setting: string, text: string, hint: string): Problem => ({
    path: `${at}${setting}`,
    message: text,
    hint,
  });
  if (code === "unauthenticated") {
    return problem(
      ".credentials",
      /key/.test(message) ? message : "there are no valid credentials",
      `run gcloud auth application-default login, or set ${at}.credentials to a service account's key file`,
    );
  }
  const connection = connectHint(code);
  if (connection !== null) return problem("", `its API can't be reached (${code})`, connection);
  if (code === "accessDenied" && /KMS|CryptoKey/i.test(message)) {
    return problem(
      ".kms_key",
      "BigQuery isn't allowed to use the key",
      `grant roles/cloudkms.cryptoKeyEncrypterDecrypter on it to the account that \`bq show --encryption_service_account --project_id=${project}\` prints`,
    );
  }
  if (code === "accessDenied") return problem(...missingRight(message, place));
  if (code === "billingNotEnabled" || /billing has not been enabled|free tier/i.test(message)) {
    return problem(
      payer,
      "the project has no billing account, and BigQuery can't change tables without one",
      `link a billing account: gcloud billing projects link ${billingProject} --billing-account=ACCOUNT`,
    );
  }
  if (code === "bytesBilledLimitExceeded" || /bytes billed/i.test(message)) {
    const setting = ".maximum_bytes_billed";
    const text = `a statement would bill more than ${at}${setting} allows`;
    const isPublished = place.datasets.length > 0;
    return problem(setting, text, isPublished ? "raise it" : "raise it, or narrow the input by `where`");
  }
  if (/resources exceeded|too large to return|responseTooLarge/i.test(`${code} ${message}`)) {
    return problem(
      "",
      "a query exceeds BigQuery's resources for one query, or returns more than 10 GB",
      "remove `order_by`, or narrow the input (`where`, fewer fields)",
    );
  }
  const missing = /Not found: (\w+) (\S+)(?: was not found in location ([\w-]+))?/.exec(message);
  if (code === "notFound" && missing) {
    const [, kind, name, where] = missing;
    return problem(
      where === undefined ? "" : ".location",
      `${kind?.toLowerCase()} ${name} was not found${where === undefined ? "" : ` in location ${where}`}`,
      location === null
        ? `correct the name, or set ${at}.location to the location of the dataset; a query reads tables of one location only`
        : `correct the name, or ${at}.location; a query reads tables of one location only`,
    );
  }
  return null;
}

/** Setting, text and hint of a missing privilege: the hint grants it. */
function missingRight(
  message: string,
  { project, billingProject = project, datasets }: NamedProject,
): readonly [setting: string, text: string, hint: string] {
  const right = /bigquery\.[\w.]+/.exec(message)?.[0] ?? "";
  const named = right === "" ? "" : ` (${right})`;
  const bind = (role: string, to = project) =>
    `gcloud projects add-iam-policy-binding ${to} --member=serviceAccount:ACCOUNT --role=roles/bigquery.${role}`;
  if (right.startsWith("bigquery.jobs")) {
    const setting = billingProject === project ? ".project" : ".billing_project";
    const text = `this account isn't allowed to run jobs in ${billingProject}${named}`;
    return [setting, text, bind("jobUser", billingProject)];
  }
  const all = datasets.join(" and ");
  if (right === "bigquery.datasets.create") {
    const hint = `create the datasets ${all} yourself, or run: ${bind("user")}`;
    return [".project", `this account isn't allowed to create datasets in ${project}${named}`, hint];
  }
  if (datasets.length === 0) {
    const hint = grantText("roles/bigquery.dataViewer", [project, "DATASET"]);
    return [".project", `this account isn't allowed to read the inputs there${named}`, hint];
  }
  const grants = datasets.map((dataset) => grantText("roles/bigquery.dataEditor", [project, dataset]));
  return [".dataset", `this account isn't allowed to write to the datasets ${all}${named}`, grants.join(" ")];
}

/** Statement that grants a role on a dataset. */
export function grantText(role: string, dataset: readonly string[]): string {
  return `GRANT \`${role}\` ON SCHEMA ${quoteQualified(dataset)} TO "serviceAccount:ACCOUNT";`;
}

/** Describes the cause without values of records, which BigQuery quotes if it can't parse one. */
function describe(error: BigQueryFailure): string {
  return isDataFault(error) ? error.code : `${error.code}: ${error.message}`;
}
