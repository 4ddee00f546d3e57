import { sql } from "kysely";
import { quoteIdentifier, tableText } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import {
  type CopiedFiles,
  copyToFiles,
  type FileFormat,
  type PublishableTable,
  rowQuery,
  typedKey,
} from "./rows.ts";

/** Rows per range; a snapshot is held only while one range is read. */
const RANGE_ROWS = 200_000;

/** Last key of a range, as a JSON array; null at the end of the table. */
export type RangeEnd = string | null;

export interface Range extends CopiedFiles {
  readonly end: RangeEnd;
}

interface RangeOptions {
  /** End of the range before; null for the first one. */
  readonly after: RangeEnd;
  /** Prefix of the files' paths. */
  readonly prefix: string;
  readonly format: FileFormat;
}

/**
 * Copies the next range of a table by key, in the caller's REPEATABLE READ transaction. Passes bounds as settings, because
 * keys of people must not appear in statement texts.
 */
export async function copyRange(
  session: Session,
  table: PublishableTable,
  { after, prefix, format }: RangeOptions,
): Promise<Range> {
  const copy = (where: string) =>
    copyToFiles(session, rowQuery(session.names, table, where, format), prefix, format);
  if (table.key.length === 0) return { ...(await copy("")), end: null };
  const key = table.key.map((name) => `t.${quoteIdentifier(name)}`).join(", ");
  const from = after === null ? "true" : `(${key}) > (${await bound(session, table, "from", after)})`;
  const [end = null] = await session.pluck<string>(
    sql.raw(
      // The inner query reads the index only; its rows would otherwise all be written as JSON.
      `SELECT jsonb_build_array(${key})::text FROM (SELECT ${key} FROM ${tableText(session.names, table.name)} AS t
       WHERE ${from} ORDER BY ${key} OFFSET ${RANGE_ROWS - 1} LIMIT 1) AS t`,
    ),
  );
  const to = end === null ? "true" : `(${key}) <= (${await bound(session, table, "to", end)})`;
  return { ...(await copy(`WHERE ${from} AND ${to}`)), end };
}

/** Stores a key as a setting of the transaction; returns its columns as text. */
async function bound(
  session: Session,
  table: PublishableTable,
  name: "from" | "to",
  key: string,
): Promise<string> {
  await session.rows(sql`SELECT set_config(${`person_etl.${name}`}, ${key}, true)`);
  return typedKey(table, table.key, `current_setting('person_etl.${name}')::jsonb`).join(", ");
}
