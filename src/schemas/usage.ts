import { boolean, date, integer, json, numeric, text, timestamp, timestamptz } from "./field.ts";
import type { RecordDeclaration } from "./flatten.ts";
import { endpointOf } from "./answer.ts";
import { table } from "./table.ts";

/** `GET /person-search/v0/usage` (section 4.3). */
export const searchUsageEndpoint = endpointOf("GET", "/person-search/v0/usage");

/** `GET /usage` (section 4.5). */
export const endpointUsageEndpoint = endpointOf("GET", "/usage");

/** Maximum number of days of person search in one answer (section 4.3). */
export const SEARCH_USAGE_DAYS = 90;

/** Organization of an answer; null if it isn't a UUID: the ops schema holds no free text of the service. */
export function readOrganization(value: unknown): string | null {
  return typeof value === "string" && /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/iu.test(value)
    ? value
    : null;
}

/** Version and path of an endpoint, without a leading slash; null if it isn't one. */
export function readEndpoint(value: unknown): string | null {
  return typeof value === "string" && /^\/*[\w./-]{1,100}$/u.test(value) ? value.replace(/^\/+/u, "") : null;
}

/** Days from the end of a day or bucket until its counts are final. */
export const DAYS_UNTIL_FINAL = 3;

const searchQuotaFields = {
  daily_record_limit: integer("none", "Maximum records delivered per UTC day."),
  current_day_records_delivered: integer("none", "Records delivered on this UTC day so far."),
  current_day_remaining: integer("none", "Remaining records of this UTC day's limit."),
};
const searchDayKey = { period_start: date("none", "The UTC day.") };
const searchDayFields = {
  records_delivered: integer("none", "Records delivered."),
  searches_created: integer("none", "Searches created."),
  parse_requests: integer("none", "Queries parsed."),
};

/** Usage of person search (section 2.9): today's quota, and one row per day. */
export const searchUsageRecord = {
  extra: "figures",
  fields: { org_id: text("none", "The organization."), ...searchQuotaFields },
  lists: {
    history: { table: "person_search_usage_daily", fields: { ...searchDayKey, ...searchDayFields } },
  },
} satisfies RecordDeclaration;

const countFields = {
  total_requests: integer("none", "Number of requests to the endpoint."),
  num_input_records: integer("none", "Number of records in these requests."),
  num_resolvable_records: integer("none", "Number of records that the service could use."),
  num_matches: integer("none", "Number of records that matched a person."),
};
const endpointFields = {
  ...countFields,
  overall_match_rate: numeric("none", "Matches per record; 0 without records."),
  resolvable_match_rate: numeric("none", "Matches per resolvable record; 0 without any."),
  last_requested_at: timestamptz("none", "Time of the last request; null if there was none."),
};

/** Usage of one endpoint (section 2.10): totals, and one row per bucket. */
export const endpointUsageRecord = {
  extra: "figures",
  fields: { endpoint: text("none", "Version and path."), ...endpointFields },
  lists: {
    buckets: {
      table: "endpoint_usage_bucket",
      // Stored as sent: the instant depends on the requested time zone.
      fields: { bucket_start: text("none", "Start of the bucket."), ...countFields },
    },
  },
} satisfies RecordDeclaration;

const isFinal = {
  is_final: boolean(
    "none",
    "True if it was read three days or more after its end; later corrections are rare.",
    "required",
  ),
};
const extra = { _extra: json("none", "Numbers and booleans without a declared column.") };
const orgId = { org_id: text("none", "The service's ID of the organization.") };
const endpoint = { endpoint: text("none", "Version and path, without a leading slash (`v2/enrich`).") };

export const personSearchUsageDaily = table("person_search_usage_daily", {
  schema: "ops",
  doc: "Usage of person search by the whole organization, per UTC day.",
  key: ["org_id", "period_start"],
  columns: { ...orgId, ...searchDayKey, ...searchDayFields, ...isFinal, ...extra },
});

export const personSearchQuota = table("person_search_quota", {
  schema: "ops",
  doc: "Quota of person search of the organization, once per reading.",
  key: ["org_id", "observed_at"],
  columns: {
    ...orgId,
    observed_at: timestamptz("none", "Time of the reading."),
    ...searchQuotaFields,
    ...extra,
  },
});

export const endpointUsage = table("endpoint_usage", {
  schema: "ops",
  doc: "All-time usage of each endpoint by the whole organization, one row per UTC day on which a run read it.",
  key: ["endpoint", "observed_date"],
  columns: {
    ...endpoint,
    observed_date: date("none", "UTC day of the reading."),
    ...endpointFields,
    ...extra,
  },
});

export const endpointUsageBucket = table("endpoint_usage_bucket", {
  schema: "ops",
  doc: "Usage of each endpoint by the whole organization, in time buckets, including empty ones.",
  key: ["endpoint", "bucketing_size", "timezone", "bucket_start"],
  columns: {
    ...endpoint,
    bucketing_size: text("none", "`hour`, `day`, `week`, `month`, `quarter` or `year`."),
    timezone: text("none", "IANA name of the time zone of the buckets."),
    bucket_start: timestamptz("none", "Start of the bucket (inclusive)."),
    bucket_start_local: timestamp(
      "none",
      "Start in local time; the two buckets of a repeated hour have the same one.",
      "required",
    ),
    bucket_end: timestamptz("none", "End of the bucket (exclusive).", "required"),
    ...countFields,
    observed_at: timestamptz("none", "Time of the reading that last changed this row.", "required"),
    ...isFinal,
    ...extra,
  },
});
