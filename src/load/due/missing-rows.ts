import type { Db } from "../db/db.ts";
import { sql } from "kysely";
import type { MissingRows, RowKey, WatchedInput } from "../erasure/people.ts";
import type { ForeignDatabase } from "../inputs/foreign-database.ts";
import { openForeignInput, openLocalInput } from "../inputs/foreign-input.ts";
import { createFromInput } from "../inputs/create-from-input.ts";
import { raw } from "../inputs/input.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import { type Session, withRolePath } from "../db/session.ts";
import type { RunRef } from "../runs/run-ref.ts";

/**
 * Compares a job's known keys with those of its input. Records rows that have left the input and removes those that
 * are back. Reads only keys.
 */
export function recordMissingRows(db: Db, run: RunRef, watched: WatchedInput): Promise<MissingRows> {
  const from = { foreign: db.foreignOf(watched.input), runId: run.runId };
  return db.transaction(run, (session) => compareKeys(session, db.names, watched, from));
}

async function compareKeys(
  session: Session,
  names: SchemaNames,
  { job, type, input }: WatchedInput,
  from: { readonly foreign: ForeignDatabase | null; readonly runId: string },
): Promise<MissingRows> {
  const keys = { ...input, fields: {} };
  const options = { type, ranked: false, isSharded: false };
  await withRolePath(session, async () => {
    const opened = from.foreign
      ? await openForeignInput(session, from.foreign, keys, options)
      : await openLocalInput(session, keys, options);
    await createFromInput(
      session,
      "input_key",
      sql`SELECT DISTINCT source_key FROM (${raw(opened.rawRows)}) AS r WHERE source_key IS NOT NULL`,
    );
  });
  // Tables without statistics count as small, and nested loops over them would take hours.
  await session.client.query("SET LOCAL enable_nestloop = off");
  const known =
    type === "validate_emails"
      ? sql`SELECT DISTINCT source_key FROM ${tableId(names, "input_email")} WHERE source = ${input.name}`
      : sql`SELECT source_key FROM ${tableId(names, "lookup_state")}
          WHERE job = ${job} AND source = ${input.name}`;
  await session.change(sql`CREATE TEMP TABLE known_key ON COMMIT DROP AS ${known}`);
  await session.client.query("ANALYZE pg_temp.known_key");
  const missing = tableId(names, "missing_input_row");
  await session.change(sql`DELETE FROM ${missing} AS m WHERE m.source = ${input.name}
    AND EXISTS (SELECT FROM pg_temp.input_key AS i WHERE i.source_key = m.source_key)`);
  await session.change(sql`
    INSERT INTO ${missing} AS m (source, source_key, missing_since, missed_runs, last_run_id, _synced_at, _run_id)
    SELECT ${input.name}, k.source_key, now(), 1, ${from.runId}, now(), ${from.runId} FROM pg_temp.known_key AS k
    WHERE NOT EXISTS (SELECT FROM pg_temp.input_key AS i WHERE i.source_key = k.source_key)
    ON CONFLICT (source, source_key) DO UPDATE SET missed_runs = m.missed_runs + 1, last_run_id = excluded.last_run_id,
      _synced_at = now(), _run_id = excluded._run_id WHERE m.last_run_id <> excluded.last_run_id`);
  const [counts] = await session.rows<MissingRows>(sql`
    SELECT (SELECT count(*) FROM pg_temp.input_key) AS "inputRows", (SELECT count(*) FROM pg_temp.known_key) AS known,
      (SELECT count(*) FROM ${missing} WHERE source = ${input.name}) AS missing`);
  return counts ?? { inputRows: 0, known: 0, missing: 0 };
}

/** Forgets which rows of an input were missing: under `on_missing: erase`, counting starts again. */
export async function forgetMissingRows(db: Db, run: RunRef, source: string): Promise<void> {
  await db.transaction(run, (session) =>
    session.change(sql`DELETE FROM ${tableId(db.names, "missing_input_row")} WHERE source = ${source}`),
  );
}

/** Different runs that have to miss a row before `on_missing: erase` acts. */
const RUNS_BEFORE_ERASURE = 3;

/** Returns up to `limit` keys that were missing in complete passes of three different runs, including this one. */
export function readGoneRows(db: Db, run: RunRef, source: string, limit: number): Promise<readonly string[]> {
  return db.transaction(run, async (session) => {
    const rows = await session.rows<{ source_key: string }>(sql`
      SELECT source_key FROM ${tableId(db.names, "missing_input_row")}
      WHERE source = ${source} AND missed_runs >= ${RUNS_BEFORE_ERASURE} AND last_run_id = ${run.runId}
      ORDER BY source_key LIMIT ${limit}`);
    return rows.map((row) => row.source_key);
  });
}

/** Deletes the missing-row entries of rows to erase; returns how many were still missing. */
export function takeGoneRows(
  session: Session,
  names: SchemaNames,
  run: RunRef,
  rows: readonly RowKey[],
): Promise<number> {
  return session.change(sql`
    DELETE FROM ${tableId(names, "missing_input_row")} AS m
    USING json_to_recordset(${JSON.stringify(rows)}::json) AS g(source text, "sourceKey" text)
    WHERE m.source = g.source AND m.source_key = g."sourceKey" AND m.missed_runs >= ${RUNS_BEFORE_ERASURE}
      AND m.last_run_id = ${run.runId}`);
}
