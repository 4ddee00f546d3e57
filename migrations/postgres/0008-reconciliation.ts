import type { Migration } from "kysely/migration";
import { runStatements } from "../../src/load/db/run-statements.ts";

/** What the reconciliation of usage has to know: up to when the ledger was removed, and which calls were never sent. */
export function reconciliation(ops: string): Migration {
  return {
    up: (db) => runStatements(db, statements(ops)),
  };
}

function statements(ops: string): readonly string[] {
  return [
    `ALTER TABLE ${ops}."warehouse_identity" ADD COLUMN "ledger_from" timestamp with time zone`,
    `ALTER TABLE ${ops}."api_call" ADD COLUMN "is_sent" boolean`,
    // The ledger names method and path, the service the path without its first slash. A day counts by the service's clock where
    // it told the time; of days of which calls were removed nothing is told.
    `CREATE OR REPLACE VIEW ${ops}."usage_reconciliation" AS
      SELECT endpoint, day, CASE WHEN is_kept THEN coalesce(answered, 0) END AS ours, reported,
        reported - CASE WHEN is_kept THEN coalesce(answered, 0) END AS not_ours,
        CASE WHEN is_kept THEN coalesce(records, 0) END AS ours_records, reported_records,
        CASE WHEN is_kept THEN coalesce(in_doubt, 0) END AS ours_in_doubt, is_final,
        CASE WHEN is_kept THEN coalesce(refused, 0) END AS ours_refused
      FROM (
        SELECT endpoint, day, o.answered, o.records, o.in_doubt, o.refused, r.total_requests AS reported,
          r.num_input_records AS reported_records, r.is_final,
          coalesce(day > (SELECT max(ledger_from AT TIME ZONE 'UTC')::date FROM ${ops}."warehouse_identity"), true) AS is_kept
        FROM (
          SELECT endpoint, day, count(*) FILTER (WHERE outcome = 'answered') AS answered,
            coalesce(sum(records_sent) FILTER (WHERE outcome = 'answered'), 0)::bigint AS records,
            count(*) FILTER (WHERE outcome = 'in_doubt') AS in_doubt, count(*) FILTER (WHERE outcome = 'refused') AS refused
          FROM (
            SELECT regexp_replace(endpoint, '^[A-Z]+ /?', '') AS endpoint, records_sent,
              (coalesce(request_completed_at, started_at) AT TIME ZONE 'UTC')::date AS day,
              CASE WHEN http_status = 200 THEN 'answered'
                WHEN http_status IS NULL AND NOT coalesce(is_sent, possibly_billed) THEN 'not_sent'
                WHEN http_status = 503 OR http_status BETWEEN 300 AND 499 AND http_status <> 408 THEN 'refused'
                ELSE 'in_doubt' END AS outcome
            FROM ${ops}."api_call") AS c
          GROUP BY 1, 2) AS o
        FULL JOIN (
          SELECT endpoint, (bucket_start AT TIME ZONE 'UTC')::date AS day, total_requests, num_input_records, is_final
          FROM ${ops}."endpoint_usage_bucket" WHERE bucketing_size = 'day' AND timezone = 'UTC') AS r
        USING (endpoint, day)) AS both_sides`,
  ];
}
