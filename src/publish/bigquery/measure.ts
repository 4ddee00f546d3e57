import type { Session } from "../../bigquery/session.ts";
import { quoteLiteral } from "../../bigquery/names.ts";
import type { Measure, PublishedTable } from "../destination.ts";
import { type DatasetNames, tableName } from "./ddl.ts";
import { listTables } from "./stage.ts";

/** Counts and sums of the tables, in one query; a table that doesn't exist is empty. */
export async function measureTables(
  session: Session,
  names: DatasetNames,
  tables: readonly PublishedTable[],
): Promise<readonly Measure[]> {
  const existing = {
    data: new Set(await listTables(session.client, names.data)),
    ops: new Set(await listTables(session.client, names.ops)),
  };
  const present = tables.filter(({ schema, name }) => existing[schema].has(name));
  const found = present.length === 0 ? [] : await session.rows<MeasuredRow>(measureQuery(names, present));
  const byName = new Map(found.map((row) => [row.table_name, row]));
  return tables.map(({ name }) => {
    const row = byName.get(name);
    return {
      table: name,
      rows: BigInt(row?.row_count ?? 0),
      syncedAtMicros: row?.synced_at_micros.replace(/\.0*$/, "") ?? "0",
    };
  });
}

interface MeasuredRow {
  readonly table_name: string;
  readonly row_count: string | number;
  readonly synced_at_micros: string;
}

/** Query over tables that exist. */
export function measureQuery(names: DatasetNames, tables: readonly PublishedTable[]) {
  const parts = tables.map(({ schema, name, columns }) => {
    const isTimed = columns.some((c) => c.name === "_synced_at");
    // The sum of a billion instants is beyond INT64.
    const sum = isTimed ? "CAST(IFNULL(SUM(CAST(UNIX_MICROS(_synced_at) AS NUMERIC)), 0) AS STRING)" : "'0'";
    return `SELECT ${quoteLiteral(name)} AS table_name, COUNT(*) AS row_count, ${sum} AS synced_at_micros
FROM ${tableName(names, schema, name)}`;
  });
  return { text: parts.join("\nUNION ALL\n") };
}
