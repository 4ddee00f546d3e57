import { sql } from "kysely";
import { tables } from "../../schemas/registry.ts";
import type { Table } from "../../schemas/table.ts";
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

/** `person` and its lists. */
const peopleTables = tables.filter(({ name, parent }) => name === "person" || parent === "person");

/** Fields of the service: neither keys nor columns of this program. */
const fieldsOf = ({ columns, key }: Table) =>
  columns.map(({ name }) => name).filter((name) => !name.startsWith("_") && !key.includes(name));

/** Reads how many rows have a value, for each field of people; the time doesn't grow with the tables. */
export function readFieldCoverage(db: Db): Promise<readonly TableCoverage[]> {
  const { names } = db;
  return readBriefly(db, async (session) => {
    const sizes = await session.rows<{ table: string; bytes: number }>(sql`
    SELECT relname AS table, pg_relation_size(c.oid) AS bytes FROM pg_catalog.pg_class AS c
    WHERE relnamespace = ${names.data}::regnamespace AND relname = ANY(${peopleTables.map(({ name }) => name)}::text[])`);
    const found: TableCoverage[] = [];
    for (const table of peopleTables) {
      const bytes = sizes.find((size) => size.table === table.name)?.bytes ?? 0;
      const read = bytes > COUNTED_BYTES ? estimate : countFields;
      found.push(await read(session, names, table));
    }
    return found;
  });
}

async function countFields(session: Session, names: SchemaNames, table: Table): Promise<TableCoverage> {
  const fields = fieldsOf(table);
  const counts = sql.join(fields.map((name) => sql`count(${sql.id(name)}) AS ${sql.id(name)}`));
  const [row] = await session.rows<Record<string, number>>(
    sql`SELECT count(*) AS rows, ${counts} FROM ${tableId(names, table.name)}`,
  );
  return {
    table: table.name,
    rows: row?.["rows"] ?? 0,
    isEstimated: false,
    fields: fields.map((column) => ({ column, rowsKnown: row?.[column] ?? 0 })),
  };
}

async function estimate(session: Session, names: SchemaNames, table: Table): Promise<TableCoverage> {
  const rows = await session.rows<{ rows: number; column: string; rowsKnown: number }>(sql`
    SELECT c.reltuples::bigint AS rows, s.attname AS column, round(c.reltuples * (1 - s.null_frac))::bigint AS "rowsKnown"
    FROM pg_catalog.pg_stats AS s JOIN pg_catalog.pg_class AS c
      ON c.relname = s.tablename AND c.relnamespace = s.schemaname::regnamespace
    WHERE s.schemaname = ${names.data} AND s.tablename = ${table.name} AND NOT s.inherited AND c.reltuples >= 0`);
  const known = new Map(rows.map(({ column, rowsKnown }) => [column, rowsKnown]));
  return {
    table: table.name,
    rows: rows[0]?.rows ?? null,
    isEstimated: true,
    fields: fieldsOf(table).flatMap((column) => {
      const rowsKnown = known.get(column);
      return rowsKnown === undefined ? [] : [{ column, rowsKnown }];
    }),
  };
}
