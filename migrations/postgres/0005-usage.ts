import type { Migration } from "kysely/migration";
import { runStatements } from "../../src/load/db/run-statements.ts";

/** What the service says was used; `ops` is the quoted name of the schema. */
export function usage(ops: string): Migration {
  return {
    up: (db) => runStatements(db, statements(ops)),
  };
}

function statements(ops: string): readonly string[] {
  return [
    `CREATE TABLE ${ops}."person_search_usage_daily" (
      "org_id" text NOT NULL,
      "period_start" date NOT NULL,
      "records_delivered" bigint,
      "searches_created" bigint,
      "parse_requests" bigint,
      "is_final" boolean NOT NULL,
      "_extra" jsonb,
      "_synced_at" timestamp with time zone NOT NULL,
      "_run_id" text NOT NULL,
      PRIMARY KEY ("org_id", "period_start")
    )`,
    `CREATE TABLE ${ops}."person_search_quota" (
      "org_id" text NOT NULL,
      "observed_at" timestamp with time zone NOT NULL,
      "daily_record_limit" bigint,
      "current_day_records_delivered" bigint,
      "current_day_remaining" bigint,
      "_extra" jsonb,
      "_synced_at" timestamp with time zone NOT NULL,
      "_run_id" text NOT NULL,
      PRIMARY KEY ("org_id", "observed_at")
    )`,
    `CREATE TABLE ${ops}."endpoint_usage" (
      "endpoint" text NOT NULL,
      "observed_date" date NOT NULL,
      "total_requests" bigint,
      "num_input_records" bigint,
      "num_resolvable_records" bigint,
      "num_matches" bigint,
      "overall_match_rate" numeric,
      "resolvable_match_rate" numeric,
      "last_requested_at" timestamp with time zone,
      "_extra" jsonb,
      "_synced_at" timestamp with time zone NOT NULL,
      "_run_id" text NOT NULL,
      PRIMARY KEY ("endpoint", "observed_date")
    )`,
    `CREATE TABLE ${ops}."endpoint_usage_bucket" (
      "endpoint" text NOT NULL,
      "bucketing_size" text NOT NULL,
      "timezone" text NOT NULL,
      "bucket_start" timestamp with time zone NOT NULL,
      "bucket_start_local" timestamp without time zone NOT NULL,
      "bucket_end" timestamp with time zone NOT NULL,
      "total_requests" bigint,
      "num_input_records" bigint,
      "num_resolvable_records" bigint,
      "num_matches" bigint,
      "observed_at" timestamp with time zone NOT NULL,
      "is_final" boolean NOT NULL,
      "_extra" jsonb,
      "_synced_at" timestamp with time zone NOT NULL,
      "_run_id" text NOT NULL,
      PRIMARY KEY ("endpoint", "bucketing_size", "timezone", "bucket_start")
    )`,
    // The ledger names method and path, the service the path without its first slash. A call counts as ours once it was
    // answered; a day counts by the service's clock where it told the time.
    `CREATE VIEW ${ops}."usage_reconciliation" AS
      SELECT endpoint, day, coalesce(o.requests, 0) AS ours, r.total_requests AS reported,
        r.total_requests - coalesce(o.requests, 0) AS not_ours,
        coalesce(o.records, 0) AS ours_records, r.num_input_records AS reported_records,
        coalesce(o.in_doubt, 0) AS ours_in_doubt, r.is_final
      FROM (
        SELECT regexp_replace(endpoint, '^[A-Z]+ /?', '') AS endpoint,
          (coalesce(request_completed_at, started_at) AT TIME ZONE 'UTC')::date AS day,
          count(*) FILTER (WHERE http_status = 200) AS requests,
          coalesce(sum(records_sent) FILTER (WHERE http_status = 200), 0)::bigint AS records,
          count(*) FILTER (WHERE http_status IS NULL OR http_status IN (500, 502, 504)) AS in_doubt
        FROM ${ops}."api_call" GROUP BY 1, 2) AS o
      FULL JOIN (
        SELECT endpoint, (bucket_start AT TIME ZONE 'UTC')::date AS day, total_requests, num_input_records, is_final
        FROM ${ops}."endpoint_usage_bucket" WHERE bucketing_size = 'day' AND timezone = 'UTC') AS r
      USING (endpoint, day)`,
  ];
}
