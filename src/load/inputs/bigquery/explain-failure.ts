import { FixConfigurationError, StopRunError } from "../../../errors.ts";
import { BigQueryFailure, isDataFault, isTransient } from "./failure.ts";

/** A problem of the configuration, by BigQuery's reason. */
interface Fix {
  readonly path: string;
  readonly text: string;
  readonly hint: string;
}

/** A connection as far as messages name it. */
interface Reader {
  readonly project: string;
  readonly location: string | null;
  /** Path in the configuration (`connections.lake`). */
  readonly path: string;
}

/** Explains a failure of BigQuery and what to do; returns any other error as it is. */
export function explainFailure(error: unknown, reader: Reader): unknown {
  if (!(error instanceof BigQueryFailure)) return error;
  const place = `BigQuery project ${reader.project} (${reader.path})`;
  if (isTransient(error)) {
    return new StopRunError(
      "database_unreachable",
      `${place} can't be used: ${describe(error)}. Try again later; everything committed before is kept.`,
      { cause: error },
    );
  }
  const fix = fixOf(error, reader);
  if (!fix) return error;
  const problem = { path: fix.path, message: fix.text, hint: fix.hint };
  return new FixConfigurationError("database_refused", `${place} can't be used: ${fix.text}.`, [problem], {
    cause: error,
  });
}

function fixOf(error: BigQueryFailure, { project, location, path: at }: Reader): Fix | null {
  const { code, message } = error;
  if (code === "unauthenticated") {
    return {
      path: `${at}.credentials`,
      text: "there are no valid credentials",
      hint: `run gcloud auth application-default login, or name a service account's key file in ${at}.credentials`,
    };
  }
  if (code === "accessDenied") return missingRight(message, project, at);
  if (code === "bytesBilledLimitExceeded" || /bytes billed/i.test(message)) {
    return {
      path: `${at}.maximum_bytes_billed`,
      text: `a statement would bill more than ${at}.maximum_bytes_billed allows`,
      hint: "raise it, or narrow the input (`where`, `cursor`)",
    };
  }
  const elsewhere = /was not found in location ([\w-]+)/.exec(message);
  if (code === "notFound" && elsewhere) {
    return {
      path: `${at}.location`,
      text: `a dataset or table was not found in location ${elsewhere[1]}`,
      hint:
        location === null
          ? `set ${at}.location to the location of your datasets; a query reads tables of one location only`
          : `all datasets of inputs have to be in ${location}; correct ${at}.location or move the dataset`,
    };
  }
  return null;
}

/** Names the missing right and the statement that grants it. */
function missingRight(message: string, project: string, at: string): Fix {
  const right = /bigquery\.[\w.]+/.exec(message)?.[0] ?? "";
  if (right.startsWith("bigquery.jobs")) {
    return {
      path: `${at}.project`,
      text: `this account may not run jobs in ${project} (${right})`,
      hint: `gcloud projects add-iam-policy-binding ${project} --member=serviceAccount:ACCOUNT --role=roles/bigquery.jobUser`,
    };
  }
  return {
    path: `${at}.project`,
    text: `this account may not read the inputs there${right === "" ? "" : ` (${right})`}`,
    hint: `GRANT \`roles/bigquery.dataViewer\` ON SCHEMA \`${project}\`.DATASET TO "serviceAccount:ACCOUNT";`,
  };
}

/** The cause without values of records, which BigQuery repeats if it can't read one. */
function describe(error: BigQueryFailure): string {
  return isDataFault(error) ? error.code : `${error.code}: ${error.message}`;
}
