import { type Cell, type DriftLog, jsonType } from "./convert.ts";
import { fieldsReaderOf, rowsOf, type TableRows, withNested } from "./person-search.ts";
import { boolean, integer, json, listPosition, prefixed, text, timestamptz } from "./field.ts";
import { extraCell, flattenerOf, isJsonObject, type JsonObject } from "./flatten.ts";
import { endpointOf } from "./answer.ts";
import { table } from "./table.ts";

const JOB = "/person-search/v0/contact-jobs/{job_id}";

/** Endpoints of contact jobs (section 4.4); how to submit one isn't documented. */
export const contactJobEndpoints = {
  status: endpointOf("GET", JOB),
  unlock: endpointOf("POST", `${JOB}/results`),
  results: endpointOf("GET", `${JOB}/results`),
};

/** States after which nothing changes (section 3.2). */
export const finishedContactStates: ReadonlySet<string> = new Set(["completed", "failed"]);

const jobFields = {
  job_id: text("none", "ID of the job."),
  job_type: text("none", "`contact_append` or `contact_prospect`."),
  status: text("none", "State of the job; `completed` and `failed` are final."),
  created_at: timestamptz("none", "When the job was created."),
  result_count: integer("none", "Number of stored result rows; null while in progress."),
  total_matched: integer("none", "Contacts that matched before the size cap; null while in progress."),
  results_unlocked: boolean("none", "True once the results were unlocked."),
  error_code: text("none", "Code of a failed job."),
  message: text("none", "Message of a failed job."),
  started_at: timestamptz("none", "When a worker started the job."),
  completed_at: timestamptz("none", "When the job ended."),
  updated_at: timestamptz("none", "Last change of the status."),
};
const resultFields = {
  service_pid: text("direct", "PID of the person."),
  matched_job_title: text("none", "Requested title that matched."),
  current_job_title: text("indirect", "Current title of the person."),
  matched_naics_code: text("none", "NAICS code that matched; contact_prospect only."),
  jacket: json("sensitive", "Everything that the service returned about the person."),
};
const companyFields = {
  name: text("none", "Matched company; contact_append only."),
  domain: text("none", "Domain of the matched company."),
  linkedin_url: text("none", "LinkedIn page of the matched company."),
};
/** Keys of `jacket` that the interface names. */
const jacketFields = {
  full_name: text("direct", "Full name."),
  linkedin_url: text("direct", "LinkedIn profile."),
};

const { matched_naics_code: naicsCode, jacket, ...titleFields } = resultFields;
const jobId = { job_id: text("none", "ID of the job.") };

export const contactJob = table("contact_job", {
  schema: "data",
  doc: "Contact jobs.",
  key: ["job_id"],
  people: "nobody",
  columns: {
    ...jobFields,
    billable_count: integer("none", "Records charged for the results; the sum of its pages."),
    unlocked_at: timestamptz("none", "When the results were unlocked, as the service reports it."),
  },
  hasExtra: true,
});

export const contactJobResult = table("contact_job_result", {
  schema: "data",
  doc: "People found by contact jobs.",
  key: ["job_id", "position"],
  belongsTo: "contact_job",
  people: { pids: ["service_pid"] },
  columns: {
    ...jobId,
    ...listPosition,
    ...titleFields,
    ...prefixed("matched_company_", companyFields),
    matched_naics_code: naicsCode,
    ...jacketFields,
    jacket,
  },
  hasExtra: true,
});

const job = flattenerOf({ fields: jobFields, lists: {} });
const titles = flattenerOf({ fields: resultFields, lists: {} });
const readCompany = fieldsReaderOf(companyFields, "matched_company");
const readJacket = fieldsReaderOf(jacketFields, "jacket");

/** Flattens a job (section 2.7) to its row. */
export function flattenContactJob(
  sent: JsonObject,
  unlocked: { readonly billable_count: Cell; readonly unlocked_at: Cell },
  drift: DriftLog,
): TableRows {
  const { object } = job.flatten(sent, null, drift);
  const cells = object.cells.map((cell) => cell ?? null);
  return rowsOf(contactJob, [
    [...cells, unlocked.billable_count, unlocked.unlocked_at, extraCell(object.extra)],
  ]);
}

/** Flattens the results of a page (section 2.8). @param offset position of the first one */
export function flattenContactResults(
  results: readonly unknown[],
  page: { readonly jobId: string; readonly offset: number },
  drift: DriftLog,
): TableRows {
  const rows: (readonly Cell[])[] = [];
  for (const [index, result] of results.entries()) {
    if (isJsonObject(result)) {
      rows.push([page.jobId, String(page.offset + index), ...resultCells(result, drift)]);
    } else drift.note("unexpected_type", "results[]", jsonType(result));
  }
  return rowsOf(contactJobResult, rows);
}

function resultCells(result: JsonObject, drift: DriftLog): readonly Cell[] {
  const { matched_company: sentCompany, ...rest } = result;
  const company = readCompany(sentCompany, drift);
  const { object } = titles.flatten(rest, null, drift);
  const [pid = null, matched = null, current = null, naics = null, whole = null] = object.cells;
  const sentJacket = result["jacket"];
  // Other keys of the jacket are kept in its JSON, and are not drift.
  const known = Object.entries(isJsonObject(sentJacket) ? sentJacket : {}).filter(([key]) =>
    Object.hasOwn(jacketFields, key),
  );
  const jacket = readJacket(Object.fromEntries(known), drift);
  const extra = withNested(object.extra, { matched_company: company.extra });
  return [pid, matched, current, ...company.cells, naics, ...jacket.cells, whole, extraCell(extra)];
}
