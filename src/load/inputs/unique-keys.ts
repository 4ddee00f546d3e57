import { type RawBuilder, sql } from "kysely";
import { quoteQualified } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { InputSource } from "./input-source.ts";

/** Columns that a primary key or unique index makes unique together. */
export interface UniqueKey {
  readonly columns: readonly string[];
  readonly isPrimary: boolean;
  /** True if a column can be NULL, which such an index allows in any number of rows. */
  readonly isNullable: boolean;
}

/**
 * JSON array of a table's {@link UniqueKey}s, the primary key first. Empty for a table with children by inheritance, because
 * its rows include theirs, which the index doesn't cover.
 */
export function uniqueKeysSql(table: RawBuilder<unknown>): RawBuilder<readonly UniqueKey[]> {
  return sql`(
    SELECT coalesce(json_agg(json_build_object('columns', k.columns, 'isPrimary', i.indisprimary, 'isNullable', k.is_nullable)
      ORDER BY i.indisprimary DESC, i.indnkeyatts, i.indexrelid), '[]')
    FROM pg_catalog.pg_index AS i CROSS JOIN LATERAL (
      SELECT json_agg(a.attname ORDER BY u.place) AS columns, bool_or(NOT a.attnotnull) AS is_nullable
      FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS u(attnum, place)
        JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = u.attnum
      WHERE u.place <= i.indnkeyatts) AS k
    WHERE i.indrelid = ${table} AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits AS h JOIN pg_catalog.pg_class AS p ON p.oid = h.inhparent
        WHERE h.inhparent = i.indrelid AND p.relkind <> 'p'))`;
}

/** Unique keys of an input's table; none for a query. */
export async function readUniqueKeys(
  session: Session,
  { relation }: Pick<InputSource, "relation">,
): Promise<readonly UniqueKey[]> {
  if (!("table" in relation)) return [];
  const table = sql`${quoteQualified(relation.table)}::regclass`;
  const [row] = await session.rows(
    sql<{ readonly keys: readonly UniqueKey[] }>`SELECT ${uniqueKeysSql(table)} AS keys`,
  );
  return row?.keys ?? [];
}

/** True if these columns contain a unique key. */
export function containsUniqueKey(columns: readonly string[], keys: readonly UniqueKey[]): boolean {
  return keys.some((key) => key.columns.every((column) => columns.includes(column)));
}
