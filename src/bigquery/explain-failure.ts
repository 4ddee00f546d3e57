import { FixConfigurationError, StopRunError } from "../errors.ts";
import { connectHint } from "../http-agent.ts";
import { BigQueryFailure, isConflict, isDataFault, isTransient } from "./failure.ts";
import { quoteQualified } from "./names.ts";

/** A problem of the configuration, by BigQuery's reason. */
interface Fix {
  readonly path: string;
  readonly text: string;
  readonly hint: string;
}

/** A connection or destination as named in messages. */
export interface NamedProject {
  readonly project: string;
  readonly location: string | null;
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
  const fix = fixOf(error, place);
  if (!fix) return error;
  const problem = { path: fix.path, message: fix.text, hint: fix.hint };
  return new FixConfigurationError("database_refused", `${subject} can't be used: ${fix.text}.`, [problem], {
    cause: error,
  });
}

function fixOf(error: BigQueryFailure, { project, location, path: at, datasets }: NamedProject): Fix | null {
  const { code, message } = error;
  if (code === "unauthenticated") {
    return {
      path: `${at}.credentials`,
      text: "there are no valid credentials",
      hint: `run gcloud auth application-default login, or set ${at}.credentials to a service account's key file`,
    };
  }
  const connection = connectHint(code);
  if (connection !== null) return { path: at, text: `its API can't be reached (${code})`, hint: connection };
  if (code === "accessDenied") return missingRight(message, { project, path: at, datasets });
  if (code === "billingNotEnabled" || /billing has not been enabled|free tier/i.test(message)) {
    return {
      path: `${at}.project`,
      text: "the project has no billing account, and BigQuery can't change tables without one",
      hint: `link a billing account: gcloud billing projects link ${project} --billing-account=ACCOUNT`,
    };
  }
  if (code === "bytesBilledLimitExceeded" || /bytes billed/i.test(message)) {
    return {
      path: `${at}.maximum_bytes_billed`,
      text: `a statement would bill more than ${at}.maximum_bytes_billed allows`,
      hint: "raise it, or narrow the input by `where`",
    };
  }
  if (/resources exceeded|too large to return|responseTooLarge/i.test(`${code} ${message}`)) {
    return {
      path: at,
      text: "a query exceeds BigQuery's resources for one query, or returns more than 10 GB",
      hint: "remove `order_by`, or narrow the input (`where`, fewer fields)",
    };
  }
  const missing = /Not found: (\w+) (\S+)(?: was not found in location ([\w-]+))?/.exec(message);
  if (code === "notFound" && missing) {
    const [, kind, name, where] = missing;
    return {
      path: where === undefined ? at : `${at}.location`,
      text: `${kind?.toLowerCase()} ${name} was not found${where === undefined ? "" : ` in location ${where}`}`,
      hint:
        location === null
          ? `correct the name, or set ${at}.location to the location of the dataset; a query reads tables of one location only`
          : `correct the name, or ${at}.location; a query reads tables of one location only`,
    };
  }
  return null;
}

/** Finds the missing privilege and the statement that grants it. */
function missingRight(
  message: string,
  { project, path, datasets }: Pick<NamedProject, "project" | "path" | "datasets">,
): Fix {
  const right = /bigquery\.[\w.]+/.exec(message)?.[0] ?? "";
  const named = right === "" ? "" : ` (${right})`;
  if (right.startsWith("bigquery.jobs")) {
    return {
      path: `${path}.project`,
      text: `this account may not run jobs in ${project}${named}`,
      hint: `gcloud projects add-iam-policy-binding ${project} --member=serviceAccount:ACCOUNT --role=roles/bigquery.jobUser`,
    };
  }
  if (right === "bigquery.datasets.create") {
    return {
      path: `${path}.project`,
      text: `this account may not create datasets in ${project}${named}`,
      hint: `create the datasets ${datasets.join(" and ")} yourself, or run: gcloud projects add-iam-policy-binding ${project} --member=serviceAccount:ACCOUNT --role=roles/bigquery.user`,
    };
  }
  if (datasets.length === 0) {
    return {
      path: `${path}.project`,
      text: `this account may not read the inputs there${named}`,
      hint: grantText("roles/bigquery.dataViewer", [project, "DATASET"]),
    };
  }
  return {
    path: `${path}.dataset`,
    text: `this account may not write to the datasets ${datasets.join(" and ")}${named}`,
    hint: datasets.map((dataset) => grantText("roles/bigquery.dataEditor", [project, dataset])).join(" "),
  };
}

/** Statement that grants a role on a dataset. */
export function grantText(role: string, dataset: readonly string[]): string {
  return `GRANT \`${role}\` ON SCHEMA ${quoteQualified(dataset)} TO "serviceAccount:ACCOUNT";`;
}

/** Describes the cause without values of records, which BigQuery quotes if it can't parse one. */
function describe(error: BigQueryFailure): string {
  return isDataFault(error) ? error.code : `${error.code}: ${error.message}`;
}
