import { catalogOf, declaredCatalog, type PublishedTable } from "../../src/publish/destination.ts";
import { connectAsText } from "../load/postgres-context.ts";
import { rowsQuery } from "./postgres-rows.ts";
import type { FileRow } from "./staged-files.ts";

/** Published tables; freshness is computed for each publication. */
const compared = catalogOf(null).tables.filter(({ name }) => name !== "table_freshness");

/** Names of the compared tables. */
export const comparedTables: readonly string[] = compared.map(({ name }) => name);

/** Views that can be compared, like tables. */
export const comparedViews: readonly ComparedTable[] = declaredCatalog(null).views;

type ComparedTable = Pick<PublishedTable, "name" | "schema" | "columns">;

/** Rows as texts, equal for equal rows: columns in declared order, JSON with sorted keys; sorted. */
function canonical({ columns }: ComparedTable, rows: readonly FileRow[]): readonly string[] {
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

/** Tables that differ from Postgres, with the first row missing on each side; and the number of rows. */
export async function compareWithPostgres(
  url: string,
  read: (table: string) => Promise<readonly Readonly<Record<string, unknown>>[]>,
  tables: readonly ComparedTable[] = compared,
) {
  const client = await connectAsText(url);
  const differing: Record<string, unknown> = {};
  let rows = 0;
  for (const table of tables) {
    const here = await client.query<{ row: string }>(rowsQuery(table));
    const expected = canonical(
      table,
      here.rows.map(({ row }) => JSON.parse(row)),
    );
    const found = canonical(table, await read(table.name));
    rows += expected.length;
    if (JSON.stringify(expected) === JSON.stringify(found)) continue;
    differing[table.name] = {
      missing: expected.filter((row) => !found.includes(row)).slice(0, 1),
      extra: found.filter((row) => !expected.includes(row)).slice(0, 1),
      rows: [expected.length, found.length],
    };
  }
  await client.end();
  return { rows, differing };
}
