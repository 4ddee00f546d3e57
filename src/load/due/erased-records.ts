import { type RawBuilder, sql } from "kysely";
import type { Db } from "../db/db.ts";
import { stateTableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { readSuppression, suppressedSql } from "../erasure/suppressed-sql.ts";
import type { FrozenRecords } from "./lookup-record.ts";

/** Returns the records that name a person erased after the selection. */
export async function findErasedRecords(
  session: Session,
  db: Pick<Db, "names" | "readErasureSecret">,
  { source, type, tables, erasureEpoch }: FrozenRecords,
  recordIds: readonly string[],
): Promise<readonly string[]> {
  const { names } = db;
  const { epoch, key } = await readSuppression(session, names, db.readErasureSecret);
  if (key === null || epoch === erasureEpoch) return [];
  const suppressed = suppressedSql(names, key);
  const isTheirs: readonly RawBuilder<unknown>[] =
    type === "validate_emails"
      ? [suppressed.email("(w.record::json #>> '{}')")]
      : [
          suppressed.pid("w.pid"),
          suppressed.pid("(w.record::json ->> 'service_pid')"),
          sql`EXISTS (SELECT FROM json_array_elements_text(w.record::json -> 'emails') AS e(e) WHERE ${suppressed.email("e")})`,
          sql`EXISTS (SELECT FROM ${stateTableId(names, tables.rows)} AS r
            WHERE r.ord = w.ord AND ${suppressed.sourceKey(source, "r.source_key")})`,
        ];
  // Records already emptied by the erasure have the text ''.
  const found = await session.rows<{ ord: string }>(sql`
    SELECT w.ord::text AS ord FROM ${stateTableId(names, tables.records)} AS w
    WHERE w.ord = ANY(${[...recordIds]}::bigint[])
      AND CASE WHEN w.record = '' THEN true ELSE ${sql.join(isTheirs, sql` OR `)} END`);
  return found.map(({ ord }) => ord);
}

/** Empties the rows behind records, as an erasure does: nothing will be known of them. */
export async function forgetRows(
  session: Session,
  rows: RawBuilder<unknown>,
  recordIds: readonly string[],
): Promise<void> {
  if (recordIds.length === 0) return;
  await session.change(sql`UPDATE ${rows} SET source_key = NULL, input_hash = '', fingerprint = NULL
    WHERE ord = ANY(${[...recordIds]}::bigint[]) AND source_key IS NOT NULL`);
}
