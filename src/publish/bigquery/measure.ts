import type { Session } from "../../bigquery/session.ts";
import { quoteIdentifier, quoteLiteral } from "../../bigquery/names.ts";
import type { ColumnType } from "../../schemas/field.ts";
import type { Measure, PublishedTable } from "../destination.ts";
import { type DatasetNames, tableName } from "./ddl.ts";
import { listTables } from "./stage.ts";

/** Counts and hashes of the tables, in one query; a table that doesn't exist is empty. */
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
      hash: row?.row_hash.replace(/\.0*$/, "") ?? "0",
    };
  });
}

interface MeasuredRow {
  readonly table_name: string;
  readonly row_count: string | number;
  readonly row_hash: string;
}

/** Query over tables that exist. */
export function measureQuery(names: DatasetNames, tables: readonly PublishedTable[]) {
  const parts = tables.map(({ schema, name, columns }) => {
    const texts = columns.map((c) => hashedText(c.type, quoteIdentifier(c.name))).join(", ");
    const digits = `SUBSTR(TO_HEX(MD5(ARRAY_TO_STRING([${texts}], '\\x01', '\\x02'))), 1, 15)`;
    // The sum of many hashes is beyond INT64.
    const sum = `CAST(IFNULL(SUM(CAST(CAST(CONCAT('0x', ${digits}) AS INT64) AS NUMERIC)), 0) AS STRING)`;
    return `SELECT ${quoteLiteral(name)} AS table_name, COUNT(*) AS row_count, ${sum} AS row_hash
FROM ${tableName(names, schema, name)}`;
  });
  return { text: parts.join("\nUNION ALL\n") };
}

/** Texts of values for the hash of a row; by default a cast. */
const HASHED: Partial<Readonly<Record<ColumnType, (column: string) => string>>> = {
  numeric: (column) => `REGEXP_REPLACE(CAST(${column} AS STRING), r'\\.0+$|(\\.[0-9]*[1-9])0+$', r'\\1')`,
  date: (column) => `CAST(UNIX_DATE(${column}) AS STRING)`,
  timestamp: (column) => `CAST(UNIX_MICROS(TIMESTAMP(${column})) AS STRING)`,
  timestamptz: (column) => `CAST(UNIX_MICROS(${column}) AS STRING)`,
  bytes: (column) => `TO_HEX(${column})`,
  // Its text isn't the one of Postgres.
  json: (column) => `IF(${column} IS NULL, NULL, '')`,
  "text[]": (column) => `ARRAY_TO_STRING(${column}, '\\x01')`,
};

function hashedText(type: ColumnType, column: string): string {
  return HASHED[type]?.(column) ?? `CAST(${column} AS STRING)`;
}
