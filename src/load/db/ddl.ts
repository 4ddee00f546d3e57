import type { ColumnType } from "../../schemas/field.ts";
import type { Column, Table } from "../../schemas/table.ts";
import type { View } from "../../schemas/views/view.ts";
import { quoteIdentifier, quoteLiteral, quoteQualified, type SchemaNames, tableText } from "./names.ts";

export const postgresTypes: Readonly<Record<ColumnType, string>> = {
  text: "text",
  integer: "bigint",
  position: "integer",
  numeric: "numeric",
  boolean: "boolean",
  date: "date",
  timestamptz: "timestamp with time zone",
  timestamp: "timestamp without time zone",
  json: "jsonb",
  uuid: "uuid",
  bytes: "bytea",
  "text[]": "text[]",
};

/** Defaults of columns omitted from COPY; a load sets `person_etl.run_id` in its transaction. */
const defaults: Readonly<Record<string, string>> = {
  _synced_at: "now()",
  _record_synced_at: "now()",
  _run_id: "current_setting('person_etl.run_id', true)",
};

/** True for texts that are compared and sorted: the order of bytes is faster than a language's, and no upgrade changes it. */
const isCompared = ({ name, type }: Column, key: readonly string[]): boolean =>
  type === "text" && (key.includes(name) || /_pid$|^email_address$/u.test(name));

function columnDefinition({ name, type, required }: Column, collation = ""): string {
  const parts = [quoteIdentifier(name), `${postgresTypes[type]}${collation}`];
  if (required) parts.push("NOT NULL");
  if (defaults[name] !== undefined) parts.push(`DEFAULT ${defaults[name]}`);
  return parts.join(" ");
}

/** `CREATE TABLE` of a declared table, with its primary key. */
export function createTable(table: Table, names: SchemaNames, fillFactor?: number): string {
  const key = table.key.length > 0 ? [`PRIMARY KEY (${table.key.map(quoteIdentifier).join(", ")})`] : [];
  const columns = table.columns.map((one) =>
    columnDefinition(one, isCompared(one, table.key) ? ' COLLATE "C"' : ""),
  );
  const lines = [...columns, ...key].map((line) => `  ${line}`);
  const storage = fillFactor === undefined ? "" : ` WITH (fillfactor = ${fillFactor})`;
  return `CREATE TABLE ${tableText(names, table.name)} (\n${lines.join(",\n")}\n)${storage}`;
}

/** `ALTER TABLE` that adds the columns that a declared table lacks. */
export function addColumns(table: string, columns: readonly Column[], names: SchemaNames): string {
  const added = columns.map((one) => `  ADD COLUMN IF NOT EXISTS ${columnDefinition(one)}`);
  return `ALTER TABLE ${tableText(names, table)}\n${added.join(",\n")}`;
}

/** `COMMENT ON` statements of a declared table or view and its columns, with their PII class. */
export function commentsOf(
  relation: Table | View,
  kind: "TABLE" | "VIEW",
  names: SchemaNames,
): readonly string[] {
  const name = quoteQualified([names[relation.schema], relation.name]);
  return [
    `COMMENT ON ${kind} ${name} IS ${quoteLiteral(relation.doc)}`,
    ...relation.columns.map(
      (c) =>
        `COMMENT ON COLUMN ${name}.${quoteIdentifier(c.name)} IS ${quoteLiteral(`${c.doc} pii: ${c.pii}`)}`,
    ),
  ];
}

/** `CREATE OR REPLACE VIEW` of a declared view; an existing view can only get more columns. */
export function createView(view: View, names: SchemaNames): string {
  return `CREATE OR REPLACE VIEW ${quoteQualified([names[view.schema], view.name])} AS\n${view.select("postgres", (name) => tableText(names, name))}`;
}
