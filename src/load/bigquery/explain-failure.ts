import { FixConfigurationError, StopRunError } from "../../errors.ts";
import { BigQueryFailure, isConflict, isDataFault, isTransient } from "./failure.ts";
import type { DatasetNames } from "./names.ts";

/** What has to be mended, by BigQuery's word for the cause. */
interface Mending {
  readonly path: string;
  readonly text: string;
  readonly hint: string;
}

/** A failure of BigQuery as an error that says what to do; any other error as it is. */
export function explainFailure(error: unknown, names: DatasetNames, location: string | null): unknown {
  if (!(error instanceof BigQueryFailure)) return error;
  const place = `BigQuery project ${names.project}`;
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
  const mending = mendingOf(error, names, location);
  if (!mending) return error;
  const problem = { path: mending.path, message: mending.text, hint: mending.hint };
  return new FixConfigurationError(
    "database_refused",
    `${place} can't be used: ${mending.text}.`,
    [problem],
    { cause: error },
  );
}

function mendingOf(error: BigQueryFailure, names: DatasetNames, location: string | null): Mending | null {
  const { code, message } = error;
  if (code === "unauthenticated") {
    return {
      path: "warehouse.credentials",
      text: "there are no valid credentials",
      hint: "run gcloud auth application-default login, or name a service account's key file in warehouse.credentials",
    };
  }
  if (code === "accessDenied") return missingRight(message, names);
  if (code === "bytesBilledLimitExceeded" || /bytes billed/i.test(message)) {
    return {
      path: "warehouse.maximum_bytes_billed",
      text: "a statement would bill more than warehouse.maximum_bytes_billed allows",
      hint: "raise it, or narrow the input (`where`, `cursor`)",
    };
  }
  const elsewhere = /was not found in location ([\w-]+)/.exec(message);
  if (code === "notFound" && elsewhere) {
    return {
      path: "warehouse.location",
      text: `a dataset or table was not found in location ${elsewhere[1]}`,
      hint:
        location === null
          ? "set warehouse.location to the location of your datasets; a query reads tables of one location only"
          : `all datasets, inputs included, have to be in ${location}; correct warehouse.location or move the dataset`,
    };
  }
  return null;
}

/** The command that grants what was refused. */
export function missingRight(message: string, names: DatasetNames): Mending {
  const right = /bigquery\.[\w.]+/.exec(message)?.[0] ?? "";
  const member = "--member=serviceAccount:ACCOUNT";
  if (right.startsWith("bigquery.jobs")) {
    return {
      path: "warehouse.project",
      text: `this account may not run jobs in ${names.project} (${right})`,
      hint: `gcloud projects add-iam-policy-binding ${names.project} ${member} --role=roles/bigquery.jobUser`,
    };
  }
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
