import type { ColumnType } from "../../src/schemas/field.ts";
import type { Table } from "../../src/schemas/table.ts";

/** Postgres expressions that format a column like the tests' reads of destinations. */
const shown: Partial<Readonly<Record<ColumnType, (column: string) => string>>> = {
  timestamptz: (c) => `to_char(${c} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')`,
  timestamp: (c) => `to_char(${c}, 'YYYY-MM-DD"T"HH24:MI:SS.US')`,
  numeric: (c) => `trim_scale(${c})::text`,
  json: (c) => `${c}::text`,
  bytes: (c) => `translate(encode(${c}, 'base64'), E'\\n', '')`,
};

/** Query of the rows of a table or view as JSON in the column `row`. */
export function rowsQuery({ name, schema, columns }: Pick<Table, "name" | "schema" | "columns">): string {
  const list = columns.map((c) => `${shown[c.type]?.(`"${c.name}"`) ?? `"${c.name}"`} AS "${c.name}"`);
  const from = schema === "ops" ? "person_data_ops" : "person_data";
  return `SELECT row_to_json(r)::text AS row FROM (SELECT ${list.join(", ")} FROM ${from}."${name}") AS r`;
}
