import { type RawBuilder, sql } from "kysely";
import { HASH_BYTES } from "./call-in-doubt.ts";
import { type DatasetNames, tableId } from "./names.ts";
import { NOW } from "./session.ts";

const ANSWERED = sql.raw("_etl_answered");
const HEX = sql.raw(String(2 * HASH_BYTES));

/**
 * Takes records that were answered meanwhile out of earlier calls in doubt: they have been counted. `hashes` is a query of one
 * column, the hash of each answered record, hex.
 */
export function forgetDoubts(
  names: DatasetNames,
  job: string,
  hashes: RawBuilder<unknown>,
): readonly RawBuilder<unknown>[] {
  const answered = sql`piece IN (SELECT SUBSTR(hash, 1, ${HEX}) FROM (${hashes}))`;
  return forget(names, sql`d.job = ${job}`, answered);
}

/** Likewise records of any job; `records` is a query of job and hash. */
export function forgetAllDoubts(
  names: DatasetNames,
  records: RawBuilder<unknown>,
): readonly RawBuilder<unknown>[] {
  const found = sql`CONCAT(d.job, ' ', piece) IN (SELECT CONCAT(job, ' ', SUBSTR(hash, 1, ${HEX})) FROM (${records}))`;
  return forget(names, sql`TRUE`, found);
}

function forget(
  names: DatasetNames,
  ofJob: RawBuilder<unknown>,
  isGone: RawBuilder<unknown>,
): readonly RawBuilder<unknown>[] {
  const table = tableId(names, "data", "call_in_doubt");
  const pieces = sql`UNNEST(REGEXP_EXTRACT_ALL(TO_HEX(record_hashes), r'.{${HEX}}'))`;
  return [
    sql`CREATE TEMP TABLE ${ANSWERED} AS
      SELECT d.call_id, STRING_AGG(IF(${isGone}, NULL, piece), '' ORDER BY position) AS kept,
        LOGICAL_OR(${isGone}) AS is_touched
      FROM ${table} AS d CROSS JOIN ${pieces} AS piece WITH OFFSET AS position
      WHERE ${ofJob} GROUP BY d.call_id`,
    sql`DELETE FROM ${table} WHERE call_id IN (SELECT call_id FROM ${ANSWERED} WHERE kept IS NULL)`,
    sql`UPDATE ${table} AS d SET record_hashes = FROM_HEX(a.kept), _synced_at = ${NOW}
      FROM ${ANSWERED} AS a WHERE a.call_id = d.call_id AND a.is_touched AND a.kept IS NOT NULL`,
    sql`DROP TABLE ${ANSWERED}`,
  ];
}
