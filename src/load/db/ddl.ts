import type { ColumnType } from "../../schemas/field.ts";
import type { Table } from "../../schemas/table.ts";
import { quoteIdentifier, quoteLiteral, quoteQualified, type SchemaNames } from "./names.ts";

/** Postgres's type of each declared type. */
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
};

/** `CREATE TABLE` of a declared table, with its primary key. */
export function createTable(table: Table, names: SchemaNames): string {
  const columns = table.columns.map(
    (c) => `  ${quoteIdentifier(c.name)} ${postgresTypes[c.type]}${c.required ? " NOT NULL" : ""}`,
  );
  const key = table.key.length > 0 ? [`  PRIMARY KEY (${table.key.map(quoteIdentifier).join(", ")})`] : [];
  const name = quoteQualified([names[table.room], table.name]);
  return `CREATE TABLE ${name} (\n${[...columns, ...key].join(",\n")}\n)`;
}

/** `COMMENT ON` statements of a declared table and its columns, each column with its pii class. */
export function commentsOf(table: Table, names: SchemaNames): readonly string[] {
  const name = quoteQualified([names[table.room], table.name]);
  return [
    `COMMENT ON TABLE ${name} IS ${quoteLiteral(table.doc)}`,
    ...table.columns.map(
      (c) =>
        `COMMENT ON COLUMN ${name}.${quoteIdentifier(c.name)} IS ${quoteLiteral(`${c.doc} pii: ${c.pii}`)}`,
    ),
  ];
}
