import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { RowKey } from "../erasure/subjects.ts";
import type { RunRef } from "../runs/run-ref.ts";
import type { LookupSpec } from "./lookup.ts";

/** Different runs that have to miss a row before `on_missing: erase` acts, and the least time over which they do. */
const RUNS_BEFORE_ERASURE = 3;
const TIME_BEFORE_ERASURE = "24 hours";

const isGone = sql`r.missing_runs >= ${RUNS_BEFORE_ERASURE} AND r.missing_since <= now() - ${TIME_BEFORE_ERASURE}::interval`;

/** Rows of a job's input. */
export interface MissingRows {
  /** Rows of the input now. */
  readonly inputRows: number;
  /** All that the job has read, missing ones included. */
  readonly known: number;
  readonly missing: number;
}

/** Counts the rows that the last reading found and missed. */
export function countMissing(db: Db, { job, source }: LookupSpec): Promise<MissingRows> {
  return db.transaction(async (session) => {
    const [counts] = await session.rows<MissingRows>(sql`
      SELECT count(*) FILTER (WHERE missing_since IS NULL) AS "inputRows", count(*) AS known,
        count(*) FILTER (WHERE missing_since IS NOT NULL) AS missing
      FROM ${tableId(db.names, "lookup_row")} WHERE job = ${job} AND source = ${source}`);
    return counts ?? { inputRows: 0, known: 0, missing: 0 };
  });
}

/** Returns up to `limit` keys that readings of three different runs, this one included, missed over at least a day. */
export function readGoneRows(db: Db, run: RunRef, source: string, limit: number): Promise<readonly string[]> {
  return db.transaction(run, async (session) => {
    const rows = await session.rows<{ source_key: string }>(sql`
      SELECT source_key FROM ${tableId(db.names, "lookup_row")} AS r
      WHERE job = ${run.job} AND source = ${source} AND ${isGone} AND missing_run_id = ${run.runId}
      ORDER BY source_key LIMIT ${limit}`);
    return rows.map((row) => row.source_key);
  });
}

/** Locks the rows to erase; returns how many of them are still missing. */
export async function lockGoneRows(
  session: Session,
  names: SchemaNames,
  run: RunRef,
  rows: readonly RowKey[],
): Promise<number> {
  const locked = await session.rows(sql`
    SELECT FROM ${tableId(names, "lookup_row")} AS r
    JOIN json_to_recordset(${JSON.stringify(rows)}::json) AS g(source text, "sourceKey" text)
      ON r.source = g.source AND r.source_key = g."sourceKey"
    WHERE r.job = ${run.job} AND ${isGone} AND r.missing_run_id = ${run.runId} FOR UPDATE OF r`);
  return locked.length;
}
