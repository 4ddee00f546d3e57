import { column } from "../table.ts";
import { pathOf, utcDay, whole } from "./dialect.ts";
import type { View } from "./view.ts";

const countOf = (outcome: string) => `sum(CASE WHEN outcome = '${outcome}' THEN 1 ELSE 0 END)`;

/** Compares the ledger with the usage reported by the service. */
export const usageReconciliation: View = {
  name: "usage_reconciliation",
  schema: "ops",
  doc: "Calls in the ledger and usage reported by the service, by endpoint and UTC day. The service counts the whole organization.",
  columns: [
    column("endpoint", "text", "none", "Path without its leading slash, as the service reports it."),
    column("day", "date", "none", "UTC day."),
    column("ours", "integer", "none", "Answered calls in the ledger; null for days removed by `retention`."),
    column("reported", "integer", "none", "Requests reported by the service; null if it reported none."),
    column("not_ours", "integer", "none", "`reported` minus `ours`."),
    column("ours_records", "integer", "none", "Records in answered calls of the ledger."),
    column("reported_records", "integer", "none", "Input records reported by the service."),
    column("ours_in_doubt", "integer", "none", "Calls in the ledger without a known outcome."),
    column("is_final", "boolean", "none", "True once the service no longer changes the day."),
    column("ours_refused", "integer", "none", "Calls in the ledger rejected by the service."),
  ],
  reads: ["api_call", "endpoint_usage_bucket", "warehouse_identity"],
  select: (
    dialect,
    ref,
  ) => `SELECT endpoint, day, CASE WHEN is_kept THEN coalesce(answered, 0) END AS ours, reported,
  reported - CASE WHEN is_kept THEN coalesce(answered, 0) END AS not_ours,
  CASE WHEN is_kept THEN coalesce(records, 0) END AS ours_records, reported_records,
  CASE WHEN is_kept THEN coalesce(in_doubt, 0) END AS ours_in_doubt, is_final,
  CASE WHEN is_kept THEN coalesce(refused, 0) END AS ours_refused
FROM (
  SELECT coalesce(o.endpoint, r.endpoint) AS endpoint, coalesce(o.day, r.day) AS day, o.answered, o.records, o.in_doubt, o.refused,
    r.total_requests AS reported, r.num_input_records AS reported_records, r.is_final,
    coalesce(coalesce(o.day, r.day) > (SELECT max(${utcDay(dialect, "ledger_from")}) FROM ${ref("warehouse_identity")}), true) AS is_kept
  FROM (
    SELECT endpoint, day, ${whole(dialect, countOf("answered"))} AS answered,
      ${whole(dialect, "sum(CASE WHEN outcome = 'answered' THEN records_sent ELSE 0 END)")} AS records,
      ${whole(dialect, countOf("in_doubt"))} AS in_doubt, ${whole(dialect, countOf("refused"))} AS refused
    FROM (
      SELECT ${pathOf(dialect)} AS endpoint, records_sent,
        ${utcDay(dialect, "coalesce(request_completed_at, started_at)")} AS day,
        CASE WHEN http_status = 200 THEN 'answered'
          WHEN http_status IS NULL AND NOT coalesce(is_sent, possibly_billed) THEN 'not_sent'
          WHEN http_status = 503 OR http_status BETWEEN 300 AND 499 AND http_status <> 408 THEN 'refused'
          ELSE 'in_doubt' END AS outcome
      FROM ${ref("api_call")}) AS c
    GROUP BY endpoint, day) AS o
  FULL JOIN (
    SELECT endpoint, ${utcDay(dialect, "bucket_start")} AS day, total_requests, num_input_records, is_final
    FROM ${ref("endpoint_usage_bucket")} WHERE bucketing_size = 'day' AND timezone = 'UTC') AS r
  ON o.endpoint = r.endpoint AND o.day = r.day) AS both_sides`,
};
