import { type RawBuilder, sql } from "kysely";
import { type SchemaNames, tableId } from "./names.ts";
import type { Session } from "./session.ts";

/** Of each record's hash so many bytes are kept: enough to tell records apart, and no more than that. */
export const HASH_BYTES = 8;
const HASH_HEX = 2 * HASH_BYTES;

/** The kept part of each hash, one after the other, as hex. */
export function packHashes(hashes: readonly string[]): string {
  return hashes.map((hash) => hash.slice(0, HASH_HEX)).join("");
}

/** The hashes packed in a column, as a set of `hash bytea`. */
function unpacked(column: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`(SELECT substring(${column} FROM i FOR ${sql.raw(String(HASH_BYTES))}) AS hash
    FROM generate_series(1, octet_length(${column}), ${sql.raw(String(HASH_BYTES))}) AS g(i))`;
}

/**
 * Records of the job's calls of which it isn't known whether they were charged, as a set of `hash bytea`. Only the first
 * bytes of a hash can be compared with it.
 */
export function hashesInDoubt(names: SchemaNames, job: string): RawBuilder<unknown> {
  return sql`SELECT h.hash FROM ${tableId(names, "data", "call_in_doubt")} AS d
    CROSS JOIN LATERAL ${unpacked(sql`d.record_hashes`)} AS h WHERE d.job = ${job}`;
}

/** Takes records that were answered meanwhile out of earlier calls in doubt: they have been counted. */
export async function forgetDoubts(
  session: Session,
  names: SchemaNames,
  job: string,
  hashes: readonly string[],
): Promise<void> {
  const answered = sql`SELECT hash FROM ${unpacked(sql`decode(${packHashes(hashes)}, 'hex')`)} AS a`;
  const doubts = tableId(names, "data", "call_in_doubt");
  await session.change(sql`
    WITH answered AS MATERIALIZED (${answered}),
    locked AS (
      SELECT d.call_id FROM ${doubts} AS d WHERE d.job = ${job} AND EXISTS (
        SELECT FROM ${unpacked(sql`d.record_hashes`)} AS h JOIN answered USING (hash))
      ORDER BY d.call_id FOR UPDATE)
    UPDATE ${doubts} AS d SET _synced_at = now(), record_hashes = coalesce((
      SELECT string_agg(h.hash, ''::bytea) FROM ${unpacked(sql`d.record_hashes`)} AS h
      WHERE h.hash NOT IN (SELECT hash FROM answered)), ''::bytea)
    FROM locked WHERE d.call_id = locked.call_id`);
  await session.change(sql`DELETE FROM ${doubts} WHERE job = ${job} AND octet_length(record_hashes) = 0`);
}
