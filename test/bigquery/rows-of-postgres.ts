import type { Client } from "pg";
import type { ColumnType } from "../../src/schemas/field.ts";
import type { PublishedTable } from "../../src/publish/destination.ts";
import type { FileRow } from "../publish/staged-files.ts";

const time = (expression: string) => `to_char(${expression}, 'YYYY-MM-DD"T"HH24:MI:SS.US')`;

/** Text of a column in the form of destinations' rows; empty for types that JSON has. */
const shown: Partial<Record<ColumnType, (column: string) => string>> = {
  timestamptz: (c) => `${time(`${c} AT TIME ZONE 'UTC'`)} || '+00:00'`,
  timestamp: time,
  numeric: (c) => `trim_scale(${c})::text`,
  json: (c) => `${c}::text`,
  bytes: (c) => `translate(encode(${c}, 'base64'), E'\\n', '')`,
};

/** Rows of a table in Postgres, in the form of the files. */
export async function rowsOfPostgres(client: Client, table: PublishedTable): Promise<readonly FileRow[]> {
  const list = table.columns.map(({ name, type }) => {
    const column = `"${name}"`;
    return `${shown[type]?.(column) ?? column} AS ${column}`;
  });
  const { rows } = await client.query<{ row: string }>(
    `SELECT row_to_json(r)::text AS row FROM (SELECT ${list.join(", ")} FROM person_data${
      table.schema === "ops" ? "_ops" : ""
    }."${table.name}") AS r`,
  );
  return rows.map(({ row }) => JSON.parse(row) as FileRow);
}

/** Rows as texts, equal for equal rows: columns in declared order, JSON with sorted keys; sorted. */
export function canonical({ columns }: PublishedTable, rows: readonly FileRow[]): readonly string[] {
  const texts = rows.map((row) =>
    JSON.stringify(columns.map(({ name, type }) => (type === "json" ? sortedJson(row[name]) : row[name]))),
  );
  return texts.toSorted();
}

function sortedJson(text: unknown): string | null {
  if (typeof text !== "string") return null;
  const sorted = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(sorted);
    if (typeof value !== "object" || value === null) return value;
    const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
    return Object.fromEntries(entries.map(([key, member]) => [key, sorted(member)]));
  };
  return JSON.stringify(sorted(JSON.parse(text)));
}
