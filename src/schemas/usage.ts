import { date, type Fields, integer, numeric, text, timestamptz } from "./field.ts";
import type { RecordDeclaration } from "./record.ts";
import { type Column, column, columnsOf, type Table, table } from "./table.ts";

/** `GET /person-search/v0/usage` (section 4.3). */
export const searchUsageEndpoint = {
  name: "GET /person-search/v0/usage",
  method: "GET",
  path: "/person-search/v0/usage",
} as const;

/** `GET /usage` (section 4.5). */
export const endpointUsageEndpoint = { name: "GET /usage", method: "GET", path: "/usage" } as const;

/** Most days of person search that one call can give (section 4.3). */
export const SEARCH_USAGE_DAYS = 90;

/** Days after its end by the service's clock from which a day or bucket counts as final. */
export const DAYS_UNTIL_FINAL = 3;

const searchQuotaFields: Fields = {
  daily_record_limit: integer("none", "Records that may be delivered per UTC day."),
  current_day_records_delivered: integer("none", "Records delivered on this UTC day so far."),
  current_day_remaining: integer("none", "Records left of this UTC day's limit."),
};
const searchDayKey: Fields = { period_start: date("none", "The UTC day.") };
const searchDayFields: Fields = {
  records_delivered: integer("none", "Records delivered."),
  searches_created: integer("none", "Searches made."),
  parse_requests: integer("none", "Queries parsed."),
};

/** Usage of person search (section 2.9): today's quota, and a row a day. */
export const searchUsageRecord = {
  fields: { org_id: text("none", "The organization."), ...searchQuotaFields },
  lists: {
    history: { table: "person_search_usage_daily", fields: { ...searchDayKey, ...searchDayFields } },
  },
} satisfies RecordDeclaration;

const countFields: Fields = {
  total_requests: integer("none", "Requests."),
  num_input_records: integer("none", "Records in them."),
  num_resolvable_records: integer("none", "Records that could be resolved."),
  num_matches: integer("none", "Records that matched."),
};
const endpointFields: Fields = {
  ...countFields,
  overall_match_rate: numeric("none", "Matches per record; 0 without records."),
  resolvable_match_rate: numeric("none", "Matches per resolvable record; 0 without any."),
  last_requested_at: timestamptz("none", "The last request; null when there was none."),
};

/** Usage of one endpoint (section 2.10): totals, and a row a bucket. */
export const endpointUsageRecord = {
  fields: { endpoint: text("none", "Version and path."), ...endpointFields },
  lists: {
    buckets: {
      table: "endpoint_usage_bucket",
      // Its begin as sent: which instant that is depends on the zone that was asked for.
      fields: { bucket_start: text("none", "Begin of the bucket."), ...countFields },
    },
  },
} satisfies RecordDeclaration;

const isFinal: Column = column(
  "is_final",
  "boolean",
  "none",
  "It ended more than three days before it was read, so its counts should move no more.",
  true,
);
/** Where the interface names every field, and none of them is about a person, nor should further ones be. */
const extra: Column = column("_extra", "json", "none", "What the service sent beyond the declared columns.");
const orgId: Column = column("org_id", "text", "none", "The organization, by the service's id.");
const endpoint: Column = column(
  "endpoint",
  "text",
  "none",
  "Version and path, without a slash before them (`v2/enrich`).",
);

/** Person search per UTC day. */
export const personSearchUsageDaily: Table = table("person_search_usage_daily", {
  room: "ops",
  doc: "What the whole organization used of person search, per UTC day (section 2.9).",
  key: ["org_id", "period_start"],
  columns: [orgId, ...columnsOf(searchDayKey), ...columnsOf(searchDayFields), isFinal, extra],
});

/** The quota of person search each time that it was read. */
export const personSearchQuota: Table = table("person_search_quota", {
  room: "ops",
  doc: "The organization's quota of person search, once per reading (section 2.9).",
  key: ["org_id", "observed_at"],
  columns: [
    orgId,
    column("observed_at", "timestamptz", "none", "When it was read."),
    ...columnsOf(searchQuotaFields),
    extra,
  ],
});

/** Usage of all time, by endpoint and day of observation. */
export const endpointUsage: Table = table("endpoint_usage", {
  room: "ops",
  doc: "What the whole organization ever used of each endpoint (section 2.10), as of each day on which it was read.",
  key: ["endpoint", "observed_date"],
  columns: [
    endpoint,
    column("observed_date", "date", "none", "UTC day, by the service's clock."),
    ...columnsOf(endpointFields),
    extra,
  ],
});

/** Usage in buckets of time. */
export const endpointUsageBucket: Table = table("endpoint_usage_bucket", {
  room: "ops",
  doc: "What the whole organization used of each endpoint, in buckets of time (section 2.10); zeros are stored as zeros.",
  key: ["endpoint", "bucketing_size", "timezone", "bucket_start"],
  columns: [
    endpoint,
    column("bucketing_size", "text", "none", "`hour`, `day`, `week`, `month`, `quarter` or `year`."),
    column("timezone", "text", "none", "IANA name of the zone in whose time buckets begin."),
    column("bucket_start", "timestamptz", "none", "Begin of the bucket (inclusive)."),
    column(
      "bucket_start_local",
      "timestamp",
      "none",
      "The same on the zone's wall clock: of an hour that comes twice, both buckets have the same.",
      true,
    ),
    column("bucket_end", "timestamptz", "none", "End of the bucket (exclusive).", true),
    ...columnsOf(countFields),
    column("observed_at", "timestamptz", "none", "When a reading last changed this row.", true),
    isFinal,
    extra,
  ],
});
