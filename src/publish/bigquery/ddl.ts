import { quoteIdentifier, quoteLiteral, quoteQualified } from "../../bigquery/names.ts";
import type { ColumnType, PiiClass } from "../../schemas/field.ts";
import type { Column, PublishedSchema } from "../../schemas/table.ts";
import type { View } from "../../schemas/views/view.ts";
import type { PublishedTable } from "../destination.ts";

/** The project and datasets that are written. */
export interface DatasetNames {
  readonly project: string;
  readonly data: string;
  readonly ops: string;
}

const TYPES: Readonly<Record<ColumnType, string>> = {
  text: "STRING",
  integer: "INT64",
  position: "INT64",
  // 38 digits before and after the decimal point; NUMERIC has only 9 after it, fewer than a score may need.
  numeric: "BIGNUMERIC",
  boolean: "BOOL",
  date: "DATE",
  timestamptz: "TIMESTAMP",
  timestamp: "DATETIME",
  json: "JSON",
  uuid: "STRING",
  bytes: "BYTES",
  "text[]": "ARRAY<STRING>",
};

/** BigQuery's type of a declared type. */
export function columnType(type: ColumnType): string {
  return TYPES[type];
}

/** Element type of a list; null for a scalar type. */
export function elementType(type: ColumnType): string | null {
  return /^ARRAY<(\w+)>$/.exec(TYPES[type])?.[1] ?? null;
}

/** Tables with daily partitions, and the partitioning column. */
const PARTITIONED: Readonly<Record<string, string>> = {
  api_call: "started_at",
  endpoint_usage_bucket: "bucket_start",
};

const UNCLUSTERABLE: ReadonlySet<ColumnType> = new Set(["json", "bytes"]);
const MOST_CLUSTER_COLUMNS = 4;

/** Label of the position table: a hash of the catalog that the datasets were migrated to. */
export const CATALOG_LABEL = "catalog";

/** Table with the last batch committed to the datasets. */
export const POSITION_TABLE = "publication_position";

/** Quotes the name of a table. */
export function tableName(names: DatasetNames, schema: PublishedSchema, name: string): string {
  return quoteQualified([names.project, names[schema], name]);
}

/** Quotes the name of the position table. */
export function positionTable(names: DatasetNames): string {
  return tableName(names, "ops", POSITION_TABLE);
}

/** `CREATE TABLE` of a declared table. */
export function createTable(table: PublishedTable, names: DatasetNames): string {
  const time = PARTITIONED[table.name];
  const cluster = table.key
    .filter((name) => table.columns.some((c) => c.name === name && !UNCLUSTERABLE.has(c.type)))
    .slice(0, MOST_CLUSTER_COLUMNS);
  return [
    `CREATE TABLE IF NOT EXISTS ${tableName(names, table.schema, table.name)} (`,
    table.columns.map((c) => `  ${columnText(c, c.required === true)}`).join(",\n"),
    `)`,
    ...(time === undefined ? [] : [`PARTITION BY TIMESTAMP_TRUNC(${quoteIdentifier(time)}, DAY)`]),
    ...(cluster.length === 0 ? [] : [`CLUSTER BY ${cluster.map(quoteIdentifier).join(", ")}`]),
    `OPTIONS (description = ${quoteLiteral(tableDescription(table))}, ` +
      `labels = [("application", "person-etl"), ("pii", "${strictestPii(table.columns)}")])`,
  ].join("\n");
}

/** `ALTER TABLE` that adds columns; they are null in existing rows. */
export function addColumns(table: PublishedTable, columns: readonly Column[], names: DatasetNames): string {
  const added = columns.map((c) => `  ADD COLUMN IF NOT EXISTS ${columnText(c, false)}`);
  return `ALTER TABLE ${tableName(names, table.schema, table.name)}\n${added.join(",\n")}`;
}

/** `CREATE TABLE` of the position table, with the row that every batch updates. */
export function createPosition(names: DatasetNames): string {
  return (
    `CREATE TABLE IF NOT EXISTS ${positionTable(names)}\n` +
    `OPTIONS (description = 'The last batch committed to these datasets. pii: none', labels = [("application", "person-etl")])\n` +
    `AS SELECT 0 AS number, CAST(NULL AS STRING) AS id, CAST(NULL AS TIMESTAMP) AS published_at`
  );
}

/** `CREATE OR REPLACE VIEW`. */
export function createView(
  view: View,
  names: DatasetNames,
  schemas: ReadonlyMap<string, PublishedSchema>,
): string {
  const ref = (name: string) => tableName(names, schemas.get(name) ?? "data", name);
  const columns = view.columns.map((c) => {
    const description = quoteLiteral(columnDescription(c));
    return `  ${quoteIdentifier(c.name)} OPTIONS (description = ${description})`;
  });
  return (
    `CREATE OR REPLACE VIEW ${tableName(names, view.schema, view.name)} (\n${columns.join(",\n")}\n)\n` +
    `OPTIONS (description = ${quoteLiteral(`${view.doc} pii: ${strictestPii(view.columns)}`)}) AS\n` +
    view.select("bigquery", ref)
  );
}

function columnText(c: Column, isRequired: boolean): string {
  // A list is never null in BigQuery, and doesn't support NOT NULL.
  const type = `${columnType(c.type)}${isRequired && elementType(c.type) === null ? " NOT NULL" : ""}`;
  return `${quoteIdentifier(c.name)} ${type} OPTIONS (description = ${quoteLiteral(columnDescription(c))})`;
}

/** Description of a column, with its PII class. */
export function columnDescription(c: Column): string {
  return `${c.doc} pii: ${c.pii}`;
}

/** Description of a table, with the strictest PII class of its columns. */
export function tableDescription(table: PublishedTable): string {
  return `${table.doc} pii: ${strictestPii(table.columns)}`;
}

const BY_STRICTNESS = ["sensitive", "direct", "indirect"] as const;

function strictestPii(columns: readonly Column[]): PiiClass {
  return BY_STRICTNESS.find((pii) => columns.some((c) => c.pii === pii)) ?? "none";
}
