import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { inject } from "vitest";
import { tables } from "../../src/schemas/registry.ts";
import type { ColumnType } from "../../src/schemas/field.ts";
import { type Destination, freshnessTable } from "../../src/publish/destination.ts";
import { openDuckDbDestination } from "../../src/publish/duckdb/destination.ts";
import { openDuckDb } from "../../src/publish/duckdb/session.ts";
import type { DestinationContext } from "./destination-suite.ts";

/** Expressions that format a column like the files. */
const asInFiles: Partial<Record<ColumnType, (column: string) => string>> = {
  timestamptz: (c) => `strftime(${c}, '%Y-%m-%dT%H:%M:%S.%f+00:00')`,
  timestamp: (c) => `strftime(${c}, '%Y-%m-%dT%H:%M:%S.%f')`,
  numeric: (c) => `regexp_replace(CAST(${c} AS VARCHAR), '\\.?0*$', '')`,
  json: (c) => `CAST(${c} AS VARCHAR)`,
  bytes: (c) => `to_base64(${c})`,
};

/** Rows of a table of a DuckDB file in the form of the files, sorted. */
export async function rowsOfFile(path: string, name: string): Promise<readonly Record<string, unknown>[]> {
  const table = [...tables, freshnessTable].find((t) => t.name === name);
  const session = await openDuckDb(path, inject("runFolder"));
  try {
    const schema = table?.schema === "ops" ? "person_data_ops" : "person_data";
    const types = new Map(table?.columns.map((c) => [c.name, c.type]));
    const columns = await session.rows(
      `SELECT column_name AS name FROM duckdb_columns() WHERE schema_name = '${schema}' AND table_name = '${name}' ORDER BY column_index`,
    );
    const list = columns.map(({ name: column }) => {
      const show = asInFiles[types.get(column ?? "") ?? (column === "shoe_size" ? "numeric" : "text")];
      return `"${column}": ${show ? show(`"${column}"`) : `"${column}"`}`;
    });
    const rows = await session.rows(
      `SELECT CAST(to_json({${list.join(", ")}}) AS VARCHAR) AS row FROM "${schema}"."${name}" ORDER BY 1`,
    );
    return rows.map(({ row }) => JSON.parse(row ?? "{}"));
  } finally {
    session.close();
  }
}

/** A DuckDB destination in a temporary folder. */
export async function openDuckDbContext(): Promise<
  DestinationContext & { readonly path: string; readonly folder: string }
> {
  const folder = await mkdtemp(join(inject("runFolder"), "duckdb-"));
  const path = join(folder, "people.duckdb");
  const open = (): Destination =>
    openDuckDbDestination({
      name: "local",
      path,
      folder: join(folder, "own"),
      schemas: { data: "person_data", ops: "person_data_ops" },
    });
  let latest = open();
  return {
    path,
    folder,
    destination: latest,
    async reopen() {
      latest = open();
      return latest;
    },
    async rows(destination, table) {
      await destination.finish();
      return (await destination.position()) === null ? [] : rowsOfFile(path, table);
    },
    close: () => latest.close(),
  };
}
