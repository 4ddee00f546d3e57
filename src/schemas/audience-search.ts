import { z } from "zod";
import type { DriftLog } from "./convert.ts";
import {
  coverageReaderOf,
  fieldsReaderOf,
  nestedObject,
  rowsOf,
  searchQuery,
  type TableRows,
  withNested,
} from "./person-search.ts";
import { boolean, integer, json, listPosition, numeric, position, text, timestamptz } from "./field.ts";
import { extraCell, flattenerOf, isJsonObject, type JsonObject, type ListDeclaration } from "./flatten.ts";
import { endpointOf } from "./answer.ts";
import { table } from "./table.ts";

const JOBS = "/person-search/v0/search-jobs";

const asUser = { asUser: true } as const;

/** Endpoints of asynchronous person search (section 4.2), which require the key of a user. */
export const audienceSearchEndpoints = {
  submit: { ...endpointOf("POST", JOBS), ...asUser },
  status: { ...endpointOf("GET", `${JOBS}/{segment_id}`), ...asUser },
  unlock: { ...endpointOf("POST", `${JOBS}/{segment_id}/results`), ...asUser },
  results: { ...endpointOf("GET", `${JOBS}/{segment_id}/results`), ...asUser },
};

/** Maximum number of PIDs or rows of a page of results (section 8). */
export const RESULTS_PAGE_SIZE = 100;

/** Body of the submit call. */
export const audienceSearchRequest = z.strictObject({ query: searchQuery });

/** States after which nothing changes (section 3.1); any other, known or not, means that the job continues. */
export const finishedSearchStates: ReadonlySet<string> = new Set(["completed", "failed", "cancelled"]);

/** Codes of failed and cancelled jobs (section 7.3). */
export const searchFailureCodes = [
  "search_criteria_failed",
  "search_processing_failed",
  "search_timed_out",
  "search_worker_lost",
  "search_cancelled",
] as const;

const jobFields = {
  segment_id: text("none", "ID of the search and of its segment."),
  status: text("none", "State of the search; `completed`, `failed` and `cancelled` are final."),
  materialization_extent: text("none", "`preview` or `full`; only a full search has results."),
  created_at: timestamptz("none", "When the search was submitted."),
  updated_at: timestamptz("none", "Last change of the status."),
  full_criteria_tree: json("none", "Criteria as the service parsed them."),
  error_criteria: json("none", "Criteria that the service could not process."),
  suggested_search: text("none", "Query that the service suggests instead."),
  total_count: integer("none", "Number of matching people; null until it is known."),
  estimated_billable_count: integer("none", "Largest charge of an unlock."),
  billable_count: integer("none", "What the unlock charged; null until unlocked."),
  results_unlocked: boolean("none", "True once the results were unlocked."),
};
const errorFields = {
  code: text("none", "Code of a failed or cancelled search."),
  message: text("none", "Message of a failed or cancelled search."),
};
const coverageFields = {
  count: integer("none", "People with this channel."),
  percentage: numeric("none", "Their share in percent, two decimals."),
};
const bucketFields = {
  label: text("none", "Label of the bucket."),
  count: integer("none", "People in the bucket."),
  percentage: numeric("none", "Their share in percent, two decimals."),
};

/** Channels of `stats.coverage` (section 2.5). */
const audienceChannels = ["email", "phone", "address"] as const;
/** Members of `stats.distributions` (section 2.5). */
const audienceDistributions = [
  "age",
  "gender",
  "education_level",
  "job_title",
  "home_ownership",
  "income",
  "wealth",
  "current_address_state",
] as const;

const segmentId = { segment_id: text("none", "ID of the search and of its segment.") };

export const audienceSearch = table("audience_search", {
  schema: "data",
  doc: "Asynchronous person searches.",
  key: ["segment_id"],
  people: "nobody",
  columns: {
    ...segmentId,
    search_name: text("none", "Name of the search in the configuration."),
    query: text("none", "Query as configured."),
    ...jobFields,
    error_code: errorFields.code,
    error_message: errorFields.message,
    unlocked_at: timestamptz("none", "When the results were unlocked, as the service reports it."),
    members_stored_at: timestamptz("none", "When all members were last stored; null until then."),
  },
  hasExtra: true,
});

export const audienceSearchCoverage = table("audience_search_coverage", {
  schema: "data",
  doc: "Contact channels of the people of an audience.",
  key: ["segment_id", "channel"],
  parent: "audience_search",
  people: "nobody",
  columns: {
    ...segmentId,
    channel: text("none", "`email`, `phone` or `address`."),
    ...coverageFields,
  },
  hasExtra: true,
});

export const audienceSearchDistribution = table("audience_search_distribution", {
  schema: "data",
  doc: "Demographics of an audience, one row per bucket.",
  key: ["segment_id", "distribution", "position"],
  parent: "audience_search",
  people: "nobody",
  columns: {
    ...segmentId,
    distribution: text("none", "`age`, `gender`, `job_title` and so on."),
    ...listPosition,
    ...bucketFields,
  },
  hasExtra: true,
});

export const audienceSearchMember = table("audience_search_member", {
  schema: "data",
  doc: "People of an unlocked audience.",
  key: ["segment_id", "service_pid"],
  belongsTo: "audience_search",
  people: { pids: ["service_pid"] },
  columns: {
    ...segmentId,
    service_pid: text("direct", "PID of the person."),
    position: position("none", "0-based index in the service's list.", "required"),
  },
});

const job = flattenerOf({ fields: jobFields, lists: {} });
const readError = fieldsReaderOf(errorFields, "error");
const coverage = coverageReaderOf(audienceChannels, coverageFields, "stats.coverage");
const distributions = flattenerOf(
  {
    fields: {},
    lists: Object.fromEntries(
      audienceDistributions.map((name): [string, ListDeclaration] => [
        name,
        { table: "audience_search_distribution", discriminator: name, fields: bucketFields },
      ]),
    ),
  },
  "stats.distributions.",
);
const others = flattenerOf({ fields: {}, lists: {} }, "stats.");

/** Flattens a job (section 2.5) to rows of its tables; those of the statistics only if it has any. */
export function flattenAudienceSearch(
  sent: JsonObject,
  named: { readonly search_name: string; readonly query: string },
  drift: DriftLog,
): readonly TableRows[] {
  // `worker` changes with every reading of a search in progress, and only shows liveness.
  const { error: sentError, stats: sentStats, worker: _, ...rest } = sent;
  const { object } = job.flatten(rest, null, drift);
  const [id = null, ...cells] = object.cells.map((cell) => cell ?? null);
  // `error.retryable` is always false (section 7.3).
  const { retryable, ...error } = isJsonObject(sentError) ? sentError : {};
  const failure = readError(retryable === false ? error : sentError, drift);
  const stats = nestedObject(sentStats, "stats", drift);
  const { coverage: sentCoverage, distributions: sentDistributions, ...unknown } = stats ?? {};
  const covered = coverage(sentCoverage, drift);
  const spread = nestedObject(sentDistributions, "stats.distributions", drift);
  const buckets = spread && distributions.flatten(spread, id, drift);
  const ofStats = withNested(others.flatten(unknown, null, drift).object.extra, {
    coverage: covered ? covered.extra : sentCoverage,
    distributions: buckets ? buckets.object.extra : sentDistributions,
  });
  const extra = withNested(object.extra, { error: failure.extra, stats: stats ? ofStats : sentStats });
  const [, ...names] = job.fieldNames;
  const coverageRows = covered?.rows.map((row) => [id, ...row]);
  const bucketRows = buckets?.lists.flatMap((list) => list?.rows ?? []);
  return [
    {
      table: "audience_search",
      columns: ["segment_id", "search_name", "query", ...names, "error_code", "error_message", "_extra"],
      rows: [[id, named.search_name, named.query, ...cells, ...failure.cells, extraCell(extra)]],
    },
    ...(coverageRows ? [rowsOf(audienceSearchCoverage, coverageRows)] : []),
    ...(bucketRows ? [rowsOf(audienceSearchDistribution, bucketRows)] : []),
  ];
}
