import type { ColumnType } from "../../schemas/field.ts";
import { quoteIdentifier, type SchemaNames } from "../db/names.ts";
import { postgresTypes } from "../db/ddl.ts";
import type { FileFormat } from "./copy-files.ts";
import { type PublishableTable, sourceText } from "./names.ts";

const within = (from: string, to: string) => (value: string) =>
  `CASE WHEN ${value} BETWEEN ${from} AND ${to} THEN ${value} END`;

/**
 * Expressions that write a value as destinations read it. Loads store only values that fit everywhere. Values written by
 * others that don't fit (NaN, infinity, years before 1) are published as null, so that they don't block later batches.
 */
const written: Partial<Readonly<Record<ColumnType, (value: string) => string>>> = {
  numeric: (value) => `CASE WHEN abs(${value}) < 1e18 THEN trim_scale(round(${value}, 20))::text END`,
  json: (value) => `${value}::text`,
  bytes: (value) => `translate(encode(${value}, 'base64'), E'\\n', '')`,
  date: within("DATE '0001-01-01'", "DATE '9999-12-31'"),
  timestamp: within("TIMESTAMP '0001-01-01'", "TIMESTAMP '9999-12-31 23:59:59.999999'"),
  timestamptz: within("TIMESTAMPTZ '0001-01-01 00:00:00+00'", "TIMESTAMPTZ '9999-12-31 23:59:59.999999+00'"),
};

/** Expression of a column as destinations read it. */
export function writtenValue(type: ColumnType, column: string): string {
  return written[type]?.(column) ?? column;
}

/** Query of columns as destinations read them, in the form of the files. `from` names a table `t`. */
function lineQuery(columns: PublishableTable["columns"], from: string, format: FileFormat): string {
  const list = columns.map(({ name, type }) => {
    const column = `t.${quoteIdentifier(name)}`;
    if (type === "text[]" && format === "text") return `to_json(${column})::text`;
    return `${writtenValue(type, column)} AS ${quoteIdentifier(name)}`;
  });
  if (format === "text") return `SELECT '', ${list.join(", ")} FROM ${from}`;
  return `SELECT row_to_json(r) FROM (SELECT ${list.join(", ")} FROM ${from}) AS r`;
}

/** Query of a table's rows. `condition` follows the table, named `t`. */
export function rowQuery(
  names: SchemaNames,
  table: PublishableTable,
  condition: string,
  format: FileFormat,
): string {
  return lineQuery(table.columns, `${sourceText(names, table)} AS t ${condition}`, format);
}

/** Query of the keys in a key table. */
export function keyQuery({ rootKey, columns }: PublishableTable, keys: string, format: FileFormat): string {
  const keyed = columns.filter(({ name }) => rootKey.includes(name));
  return lineQuery(keyed, `${keys} AS t`, format);
}

/** SELECT list that converts the marked keys of a root to its key columns. `key` is the jsonb array. */
export function keyColumns({ rootKey, columns }: PublishableTable, key: string): string {
  const types = new Map(columns.map(({ name, type }) => [name, postgresTypes[type]]));
  return rootKey
    .map((name, index) => `(${key} ->> ${index})::${types.get(name) ?? "text"} AS ${quoteIdentifier(name)}`)
    .join(", ");
}
