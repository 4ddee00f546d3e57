import { FixConfigurationError, StopRunError } from "../../errors.ts";
import { BigQueryFailure, isConflict, isDataFault, isTransient } from "./failure.ts";
import type { DatasetNames } from "./names.ts";

/** What has to be mended, by BigQuery's word for the cause. */
interface Mending {
  readonly path: string;
  readonly text: string;
  readonly hint: string;
}

/**
 * A failure of BigQuery as an error that says what to do; any other error as it is.
 * @param at path in the configuration of what names the project: the warehouse, or a connection.
 */
export function explainFailure(
  error: unknown,
  names: DatasetNames,
  location: string | null,
  at = "warehouse",
): unknown {
  if (!(error instanceof BigQueryFailure)) return error;
  const place = `BigQuery project ${names.project}${at === "warehouse" ? "" : ` (${at})`}`;
  if (isTransient(error)) {
    return new StopRunError(
      "database_unreachable",
      `${place} can't be used: ${describe(error)}. Try again later; everything committed before is kept.`,
      { cause: error },
    );
  }
  if (isConflict(error)) {
    return new StopRunError(
      "warehouse_busy",
      `${place}: a transaction lost against others for minutes, because they change the same tables. Run fewer ` +
        "processes on these datasets at the same time; everything committed before is kept.",
      { cause: error },
    );
  }
  if (error.code === "quotaExceeded") {
    return new StopRunError(
      "warehouse_quota",
      `${place}: a quota is used up (${error.message}). Answers that were received wait on disk and are loaded by the next run.`,
      { cause: error },
    );
  }
  const mending = mendingOf(error, names, location, at);
  if (!mending) return error;
  const problem = { path: mending.path, message: mending.text, hint: mending.hint };
  return new FixConfigurationError(
    "database_refused",
    `${place} can't be used: ${mending.text}.`,
    [problem],
    { cause: error },
  );
}

function mendingOf(
  error: BigQueryFailure,
  names: DatasetNames,
  location: string | null,
  at: string,
): Mending | null {
  const { code, message } = error;
  if (code === "unauthenticated") {
    return {
      path: `${at}.credentials`,
      text: "there are no valid credentials",
      hint: `run gcloud auth application-default login, or name a service account's key file in ${at}.credentials`,
    };
  }
  if (code === "accessDenied")
    return at === "warehouse" ? missingRight(message, names) : missingRead(message, names, at);
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
          : `all datasets, inputs included, have to be in ${location}; correct ${at}.location or move the dataset`,
    };
  }
  return null;
}

const MEMBER = "--member=serviceAccount:ACCOUNT";

function rightIn(message: string): string {
  return /bigquery\.[\w.]+/.exec(message)?.[0] ?? "";
}

function missingJobs(right: string, { project }: DatasetNames, at: string): Mending | null {
  if (!right.startsWith("bigquery.jobs")) return null;
  return {
    path: `${at}.project`,
    text: `this account may not run jobs in ${project} (${right})`,
    hint: `gcloud projects add-iam-policy-binding ${project} ${MEMBER} --role=roles/bigquery.jobUser`,
  };
}

/** The command that grants what was refused where only inputs are read. */
function missingRead(message: string, names: DatasetNames, at: string): Mending {
  const right = rightIn(message);
  return (
    missingJobs(right, names, at) ?? {
      path: `${at}.project`,
      text: `this account may not read the inputs there${right === "" ? "" : ` (${right})`}`,
      hint: `bq add-iam-policy-binding ${MEMBER} --role=roles/bigquery.dataViewer ${names.project}:DATASET`,
    }
  );
}

/** The command that grants what was refused. */
export function missingRight(message: string, names: DatasetNames): Mending {
  const right = rightIn(message);
  const member = MEMBER;
  const jobs = missingJobs(right, names, "warehouse");
  if (jobs) return jobs;
  return {
    path: "warehouse.schema",
    text: `this account lacks a right${right === "" ? "" : ` (${right})`} on the datasets ${names.data} and ${names.ops}`,
    hint:
      `gcloud projects add-iam-policy-binding ${names.project} ${member} --role=roles/bigquery.dataEditor, or grant that ` +
      `role on both datasets: bq add-iam-policy-binding ${member} --role=roles/bigquery.dataEditor ${names.project}:${names.data}`,
  };
}

/** The cause without values of records, which BigQuery repeats where it can't read one. */
function describe(error: BigQueryFailure): string {
  return isDataFault(error) ? error.code : `${error.code}: ${error.message}`;
}
