import { person, personChildren } from "../person.ts";
import { type Column, column, type Table } from "../table.ts";
import type { Dialect, View } from "./view.ts";

/** People and their lists. */
export const coveredTables: readonly Table[] = [person, ...personChildren];

/** Columns that the service fills, without keys. */
export function fieldsOf({ columns, key }: Table): readonly Column[] {
  return columns.filter(({ name }) => !key.includes(name) && !name.startsWith("_"));
}

const lengthOf: Readonly<Record<Dialect, string>> = {
  postgres: "cardinality",
  bigquery: "array_length",
  duckdb: "len",
};

/** One row per field of a table, from a single scan. */
function coverageRows(table: Table, dialect: Dialect, ref: (name: string) => string): string {
  const fields = fieldsOf(table);
  const counts = fields.map(({ name, type }, i) =>
    type === "text[]"
      ? `count(CASE WHEN ${lengthOf[dialect]}(${name}) > 0 THEN 1 END) AS n${i}`
      : `count(${name}) AS n${i}`,
  );
  const names = fields.map(({ name }, i) => `SELECT ${i} AS i, '${name}' AS column_name`);
  const cases = fields.map((_, i) => `WHEN ${i} THEN n${i}`);
  return `SELECT '${table.name}' AS table_name, column_name, all_rows, CASE i ${cases.join(" ")} END AS rows_known
FROM (SELECT count(*) AS all_rows, ${counts.join(", ")} FROM ${ref(table.name)}) AS counted
CROSS JOIN (${names.join(" UNION ALL ")}) AS fields`;
}

/** Known values per field of a person. */
export const fieldCoverage: View = {
  name: "field_coverage",
  schema: "data",
  doc: "Number of known values of each field of people and their lists. Scans the tables of its rows: filter on `table_name`.",
  columns: [
    column("table_name", "text", "none", "Table: `person` or one of its lists, such as `person_phone`."),
    column("column_name", "text", "none", "Column, without keys."),
    column("rows", "integer", "none", "Rows of the table; a keyword in BigQuery, where it needs backticks."),
    column("rows_known", "integer", "none", "Rows where the column is neither null nor an empty list."),
  ],
  reads: coveredTables.map(({ name }) => name),
  select: (dialect, ref) => {
    const quote = dialect === "bigquery" ? "`" : '"';
    const rows = coveredTables.map((table) => coverageRows(table, dialect, ref));
    return `SELECT table_name, column_name, all_rows AS ${quote}rows${quote}, rows_known
FROM (
${rows.join("\nUNION ALL\n")}) AS covered`;
  },
};
