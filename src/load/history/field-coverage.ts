import { sql } from "kysely";
import type { Table } from "../../schemas/table.ts";
import { coveredTables, fieldsOf } from "../../schemas/views/field-coverage.ts";
import type { Db } from "../db/db.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { readBriefly } from "./read-briefly.ts";

/** Known values of the fields of one table. */
export interface TableCoverage {
  readonly table: string;
  /** Estimated for a large table; null until its statistics are collected. */
  readonly rows: number | null;
  /** True for figures from the server's statistics, which come from a sample of rows. */
  readonly isEstimated: boolean;
  /** Rows with a value, by column. */
  readonly fields: readonly { readonly column: string; readonly rowsKnown: number }[];
}

/** Larger tables aren't counted: their figures come from the server's statistics. */
const COUNTED_BYTES = 16 * 1024 ** 2;

/** Reads how many rows have a value, for each field of people; the time doesn't grow with the tables. */
export function readFieldCoverage(db: Db): Promise<readonly TableCoverage[]> {
  const { names } = db;
  return readBriefly(db, async (session) => {
    const sizes = await session.rows<{ table: string; bytes: number }>(sql`
    SELECT relname AS table, pg_relation_size(c.oid) AS bytes FROM pg_catalog.pg_class AS c
    WHERE relnamespace = ${names.data}::regnamespace AND relname = ANY(${coveredTables.map(({ name }) => name)}::text[])`);
    const found: TableCoverage[] = [];
    for (const table of coveredTables) {
      const bytes = sizes.find((size) => size.table === table.name)?.bytes ?? 0;
      const isEstimated = bytes > COUNTED_BYTES;
      const known = await (isEstimated ? estimateFields : countFields)(session, names, table);
      const fields = fieldsOf(table).flatMap(({ name }) => known.filter(({ column }) => column === name));
      found.push({ table: table.name, rows: known[0]?.rows ?? null, isEstimated, fields });
    }
    return found;
  });
}

interface KnownValues {
  readonly rows: number;
  readonly column: string;
  readonly rowsKnown: number;
}

function countFields(session: Session, names: SchemaNames, table: Table): Promise<KnownValues[]> {
  return session.rows(sql`
    SELECT rows, column_name AS column, rows_known AS "rowsKnown" FROM ${tableId(names, "field_coverage")}
    WHERE table_name = ${table.name}`);
}

function estimateFields(session: Session, names: SchemaNames, table: Table): Promise<KnownValues[]> {
  return session.rows(sql`
    SELECT c.reltuples::bigint AS rows, s.attname AS column, round(c.reltuples * (1 - s.null_frac))::bigint AS "rowsKnown"
    FROM pg_catalog.pg_stats AS s JOIN pg_catalog.pg_class AS c
      ON c.relname = s.tablename AND c.relnamespace = s.schemaname::regnamespace
    WHERE s.schemaname = ${names.data} AND s.tablename = ${table.name} AND NOT s.inherited AND c.reltuples >= 0`);
}
