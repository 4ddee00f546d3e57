import { type RawBuilder, sql } from "kysely";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";

/** Stored bytes of each record's hash, enough to distinguish records. */
export const HASH_BYTES = 8;
const HASH_HEX = 2 * HASH_BYTES;

/** Concatenates the stored part of each hash. */
export function packHashes(hashes: readonly string[]): Buffer {
  return Buffer.from(hashes.map((hash) => hash.slice(0, HASH_HEX)).join(""), "hex");
}

/**
 * Records of the job's calls that may have been billed, as rows `hash bytea`. Contains only the first
 * {@link HASH_BYTES} of each hash.
 */
export function hashesInDoubt(names: SchemaNames, job: string): RawBuilder<unknown> {
  // Appending empty bytes detoasts each value once; OFFSET 0 keeps the planner from doing it per slice.
  const size = sql.raw(String(HASH_BYTES));
  return sql`SELECT substring(d.record_hashes FROM i FOR ${size}) AS hash
    FROM (SELECT record_hashes || ''::bytea AS record_hashes FROM ${tableId(names, "call_in_doubt")}
      WHERE job = ${job} OFFSET 0) AS d
    CROSS JOIN LATERAL generate_series(1, octet_length(d.record_hashes), ${size}) AS g(i)`;
}

interface Doubt {
  readonly call_id: string;
  readonly hashes: string;
}

/** Hashes of a call in doubt without those of answered records. */
function without(answered: ReadonlySet<string>, { hashes }: Doubt): string {
  const kept: string[] = [];
  for (let at = 0; at < hashes.length; at += HASH_HEX) {
    const hash = hashes.slice(at, at + HASH_HEX);
    if (!answered.has(hash)) kept.push(hash);
  }
  return kept.join("");
}

/** Removes answered records from earlier calls in doubt. */
export async function forgetDoubts(
  session: Session,
  names: SchemaNames,
  job: string,
  hashes: readonly string[],
): Promise<void> {
  const answered = new Set(hashes.map((hash) => hash.slice(0, HASH_HEX)));
  const table = tableId(names, "call_in_doubt");
  const read = (condition: RawBuilder<unknown>) =>
    session.rows<Doubt>(
      sql`SELECT call_id::text, encode(record_hashes, 'hex') AS hashes FROM ${table} WHERE job = ${job} ${condition}`,
    );
  const concerns = (doubt: Doubt) => without(answered, doubt).length < doubt.hashes.length;
  const ids = (await read(sql``)).filter(concerns).map((doubt) => doubt.call_id);
  // Another loader may be removing other records of the same call.
  for (const doubt of await read(sql`AND call_id = ANY(${ids}::uuid[]) ORDER BY call_id FOR UPDATE`)) {
    const kept = without(answered, doubt);
    await session.change(
      kept === ""
        ? sql`DELETE FROM ${table} WHERE call_id = ${doubt.call_id}`
        : sql`UPDATE ${table} SET record_hashes = decode(${kept}, 'hex'), _synced_at = now()
            WHERE call_id = ${doubt.call_id}`,
    );
  }
}
