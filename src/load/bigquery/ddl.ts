import type { ColumnType } from "../../schemas/field.ts";
import { tables } from "../../schemas/registry.ts";
import { type Column, column, type Room, type Table, table } from "../../schemas/table.ts";
import { type DatasetNames, quoteIdentifier, quoteLiteral, quoteQualified, tableText } from "./names.ts";

const bigQueryTypes: Readonly<Record<ColumnType, string>> = {
  text: "STRING",
  integer: "INT64",
  position: "INT64",
  // 38 digits on each side of the point; NUMERIC has 9 behind it, which a score may exceed.
  numeric: "BIGNUMERIC",
  boolean: "BOOL",
  date: "DATE",
  timestamptz: "TIMESTAMP",
  timestamp: "DATETIME",
  json: "JSON",
  uuid: "STRING",
  bytes: "BYTES",
};

/** BigQuery's type of a declared type. */
export function columnType(type: ColumnType): string {
  return bigQueryTypes[type];
}

/** Signs of life: rows are only appended, which no transaction hinders; the lock's own row would have to wait for commits. */
export const jobHeartbeat: Table = table("job_heartbeat", {
  room: "ops",
  doc: "Signs of life of those who run jobs; each prolongs the lock of its epoch (`job_lock`).",
  key: [],
  columns: [
    column("job", "text", "none", "The job.", true),
    column("shard", "text", "none", "`I/N`; `0/1` without shards.", true),
    column("epoch", "integer", "none", "Of the lock.", true),
    column("run_id", "text", "none", "The owner's run.", true),
    column("expires_at", "timestamptz", "none", "From then on others may take over.", true),
  ],
});

/** Which changes of the tables were made. */
export const schemaMigration: Table = table("schema_migration", {
  room: "ops",
  doc: "Which versions of the tables were set up, and when.",
  key: ["name"],
  columns: [
    column("name", "text", "none", "The step."),
    column("run_id", "text", "none", "Empty.", true),
    column("applied_at", "timestamptz", "none", "When it was done.", true),
  ],
});

/** Every table of a warehouse in BigQuery. */
export const bigQueryTables: readonly Table[] = [...tables, jobHeartbeat, schemaMigration];

/** Tables whose rows are read by time, and the column: one partition a day. */
const PARTITIONED: Readonly<Record<string, string>> = {
  api_call: "started_at",
  endpoint_usage_bucket: "bucket_start",
};

/** Types that rows can be clustered by. */
const CLUSTERABLE: ReadonlySet<ColumnType> = new Set([
  "text",
  "integer",
  "position",
  "numeric",
  "boolean",
  "date",
  "timestamptz",
  "timestamp",
  "uuid",
]);
const MOST_CLUSTER_COLUMNS = 4;

/** `CREATE TABLE` of a declared table. */
export function createTable(declared: Table, names: DatasetNames): string {
  const columns = declared.columns.map((c) => `  ${columnText(c, c.required === true)}`).join(",\n");
  const time = PARTITIONED[declared.name];
  const partition = time === undefined ? "" : `\nPARTITION BY TIMESTAMP_TRUNC(${quoteIdentifier(time)}, DAY)`;
  const cluster = clusterOf(declared);
  const clustered = cluster.length === 0 ? "" : `\nCLUSTER BY ${cluster.map(quoteIdentifier).join(", ")}`;
  return (
    `CREATE TABLE IF NOT EXISTS ${tableText(names, declared.room, declared.name)} (\n${columns}\n)` +
    `${partition}${clustered}\nOPTIONS (description = ${quoteLiteral(tableDescription(declared))}, ` +
    `labels = [("application", "person-etl"), ("pii", ${JSON.stringify(strictestPii(declared))})])`
  );
}

/** A declared table as the REST interface takes it: the same as {@link createTable}, without a job. */
export function tableResource(declared: Table, names: DatasetNames): object {
  const time = PARTITIONED[declared.name];
  const cluster = clusterOf(declared);
  return {
    tableReference: { projectId: names.project, datasetId: names[declared.room], tableId: declared.name },
    schema: { fields: declared.columns.map((c) => fieldResource(c, c.required === true)) },
    ...(time === undefined ? {} : { timePartitioning: { type: "DAY", field: time } }),
    ...(cluster.length === 0 ? {} : { clustering: { fields: cluster } }),
    description: tableDescription(declared),
    labels: { application: "person-etl", pii: strictestPii(declared) },
  };
}

/** A column as the REST interface takes it. Of rows that are there a new one is null, so that it can't be required. */
export function fieldResource(c: Column, isRequired: boolean): FieldResource {
  return {
    name: c.name,
    type: columnType(c.type),
    mode: isRequired ? "REQUIRED" : "NULLABLE",
    description: columnDescription(c),
  };
}

/** A column of the REST interface. */
export interface FieldResource {
  readonly name: string;
  readonly type: string;
  readonly mode?: string;
  readonly description?: string;
}

/** `CREATE SCHEMA` of a dataset. */
export function createDataset(names: DatasetNames, dataset: string, location: string | null): string {
  const options = [
    ...(location === null ? [] : [`location = ${quoteLiteral(location)}`]),
    `labels = [("application", "person-etl")]`,
  ];
  return `CREATE SCHEMA IF NOT EXISTS ${quoteQualified([names.project, dataset])} OPTIONS (${options.join(", ")})`;
}

function columnText(c: Column, isRequired: boolean): string {
  const type = `${columnType(c.type)}${isRequired ? " NOT NULL" : ""}`;
  return `${quoteIdentifier(c.name)} ${type} OPTIONS (description = ${quoteLiteral(columnDescription(c))})`;
}

function columnDescription(c: Column): string {
  return `${c.doc} pii: ${c.pii}`;
}

/** A table is searched by its key; rows of one person lie together. */
function clusterOf({ key, columns }: Table): readonly string[] {
  const clusterable = key.filter((name) => columns.some((c) => c.name === name && CLUSTERABLE.has(c.type)));
  return clusterable.slice(0, MOST_CLUSTER_COLUMNS);
}

function tableDescription(declared: Table): string {
  return `${declared.doc} pii: ${strictestPii(declared)}`;
}

const BY_STRICTNESS = ["sensitive", "direct", "indirect"] as const;

function strictestPii({ columns }: Table): string {
  return BY_STRICTNESS.find((pii) => columns.some((c) => c.pii === pii)) ?? "none";
}

/** A view, and what it says. */
export interface ViewDefinition {
  readonly room: Room;
  readonly name: string;
  readonly description: string;
  readonly query: string;
}

/** `CREATE OR REPLACE VIEW`. */
export function createView(view: ViewDefinition, names: DatasetNames): string {
  return (
    `CREATE OR REPLACE VIEW ${tableText(names, view.room, view.name)}\n` +
    `OPTIONS (description = ${quoteLiteral(view.description)}) AS\n${view.query}`
  );
}

/** The views. */
export function viewsOf(names: DatasetNames): readonly ViewDefinition[] {
  const data = (name: string) => tableText(names, "data", name);
  const ops = (name: string) => tableText(names, "ops", name);
  return [
    {
      room: "data",
      name: "identity_link",
      description:
        "The best present match of each input row: the highest score, then the newest. pii: direct",
      query: `SELECT source, source_key, service_pid, job, match_score, matched_at
FROM (
  SELECT source, source_key, service_pid, job, match_score, last_matched_at AS matched_at
  FROM ${data("resolution")} WHERE is_match AND service_pid IS NOT NULL
  UNION ALL
  SELECT source, source_key, service_pid, job, match_score, last_matched_at AS matched_at
  FROM ${data("enrichment")} WHERE is_match AND service_pid IS NOT NULL)
WHERE TRUE
QUALIFY ROW_NUMBER() OVER (PARTITION BY source, source_key
  ORDER BY match_score DESC NULLS LAST, matched_at DESC NULLS FIRST, job) = 1`,
    },
    {
      room: "ops",
      name: "table_freshness",
      // Loads of a run that is under way are visible up to its safe_until; without one, everything is.
      description: "Up to when each table is complete. pii: none",
      query: `SELECT table_name, MAX(last_success_at) AS last_success_at, MAX(last_changed_at) AS last_changed_at,
  IFNULL((SELECT MIN(r.safe_until) FROM ${ops("sync_run")} AS r
    WHERE r.status = 'running' AND r._synced_at > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 1 DAY)),
    CURRENT_TIMESTAMP()) AS safe_until
FROM ${ops("table_load")} GROUP BY table_name`,
    },
    {
      room: "ops",
      name: "usage_reconciliation",
      description:
        "Our ledger beside what the service reports, per endpoint and UTC day; it counts the whole organization. pii: none",
      // A day counts by the service's clock where it told the time; of days of which calls were removed nothing is told.
      query: `SELECT endpoint, day, IF(is_kept, IFNULL(answered, 0), NULL) AS ours, reported,
  reported - IF(is_kept, IFNULL(answered, 0), NULL) AS not_ours,
  IF(is_kept, IFNULL(records, 0), NULL) AS ours_records, reported_records,
  IF(is_kept, IFNULL(in_doubt, 0), NULL) AS ours_in_doubt, is_final,
  IF(is_kept, IFNULL(refused, 0), NULL) AS ours_refused
FROM (
  SELECT endpoint, day, o.answered, o.records, o.in_doubt, o.refused, r.total_requests AS reported,
    r.num_input_records AS reported_records, r.is_final,
    IFNULL(day > (SELECT MAX(DATE(ledger_from)) FROM ${ops("warehouse_identity")}), TRUE) AS is_kept
  FROM (
    SELECT endpoint, day, COUNTIF(outcome = 'answered') AS answered,
      SUM(IF(outcome = 'answered', records_sent, 0)) AS records,
      COUNTIF(outcome = 'in_doubt') AS in_doubt, COUNTIF(outcome = 'refused') AS refused
    FROM (
      SELECT REGEXP_REPLACE(endpoint, r'^[A-Z]+ /?', '') AS endpoint, records_sent,
        DATE(COALESCE(request_completed_at, started_at)) AS day,
        CASE WHEN http_status = 200 THEN 'answered'
          WHEN http_status IS NULL AND NOT IFNULL(is_sent, possibly_billed) THEN 'not_sent'
          WHEN http_status = 503 OR (http_status BETWEEN 300 AND 499 AND http_status != 408) THEN 'refused'
          ELSE 'in_doubt' END AS outcome
      FROM ${ops("api_call")}) AS c
    GROUP BY 1, 2) AS o
  FULL JOIN (
    SELECT endpoint, DATE(bucket_start) AS day, total_requests, num_input_records, is_final
    FROM ${ops("endpoint_usage_bucket")} WHERE bucketing_size = 'day' AND timezone = 'UTC') AS r
  USING (endpoint, day)) AS both_sides`,
    },
  ];
}
