import { boolean, date, integer, text, timestamptz } from "../field.ts";
import { deceasedCustomer, personContactChange, personJobChange, personMove } from "./changes.ts";
import { costDaily } from "./costs.ts";
import {
  duplicateInputRow,
  fieldCoverage,
  identityLink,
  personBestEmail,
  personBestPhone,
  personCurrentAddress,
  personCurrentJob,
  personEducationSubject,
} from "./people.ts";
import { pathOf, utcDay, type View, view, whole } from "./view.ts";

/** Freshness of each table; in a destination this is a table of the same name. */
const tableFreshness = view("table_freshness", {
  schema: "ops",
  doc: "When each table was last loaded and changed; incremental readers can read up to `safe_until`.",
  columns: {
    table_name: text("none", "The table.", "required"),
    last_success_at: timestamptz(
      "none",
      "End of the last success; runs that ended at your own cap or budget are included.",
    ),
    last_changed_at: timestamptz("none", "Last change of a row."),
    safe_until: timestamptz("none", "Every row with an older `_synced_at` is committed.", "required"),
  },
  reads: ["sync_run", "table_load"],
  // Rows that are not committed yet have a `_synced_at` after the start of the run, or command, that writes them.
  select: (
    _,
    ref,
  ) => `SELECT table_name, max(last_success_at) AS last_success_at, max(last_changed_at) AS last_changed_at,
  coalesce((SELECT min(r.started_at) FROM ${ref("sync_run")} AS r WHERE r.status = 'running'), now()) AS safe_until
FROM ${ref("table_load")} GROUP BY table_name`,
});

const countOf = (outcome: string) => `sum(CASE WHEN outcome = '${outcome}' THEN 1 ELSE 0 END)`;

const usageReconciliation = view("usage_reconciliation", {
  schema: "ops",
  doc: "Calls in the ledger and usage reported by the service, by endpoint and UTC day. The service counts the whole organization.",
  columns: {
    endpoint: text("none", "Path without its leading slash, as the service reports it."),
    day: date("none", "UTC day."),
    ours: integer("none", "Calls in the ledger with a response; null for days removed by `retention`."),
    reported: integer("none", "Requests reported by the service; null if it reported none."),
    not_ours: integer("none", "`reported` minus `ours`."),
    ours_records: integer("none", "Records in calls of the ledger with a response."),
    reported_records: integer("none", "Input records reported by the service."),
    ours_in_doubt: integer("none", "Calls in the ledger without a known outcome."),
    is_final: boolean("none", "True once the service no longer changes the day."),
    ours_refused: integer("none", "Calls in the ledger rejected by the service."),
  },
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
      SELECT ${pathOf(dialect)} AS endpoint, CASE WHEN budget = 'unlock' THEN 0 ELSE records_sent END AS records_sent,
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
});

/** Each after those that it reads. */
export const declaredViews = [
  identityLink,
  duplicateInputRow,
  personBestEmail,
  personBestPhone,
  personCurrentAddress,
  personCurrentJob,
  personEducationSubject,
  personJobChange,
  personMove,
  personContactChange,
  deceasedCustomer,
  fieldCoverage,
  costDaily,
  tableFreshness,
  usageReconciliation,
] as const;

/** Every declared view, each after those that it reads. */
export const views: readonly View[] = declaredViews;
