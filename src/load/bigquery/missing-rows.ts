import { sql } from "kysely";
import type { MissingRows, WatchedInput } from "../erasure-warehouse.ts";
import type { Suppression } from "../suppression.ts";
import type { RunRef } from "../warehouse.ts";
import type { Reading } from "../foreign-database.ts";
import type { InputSource } from "../input-source.ts";
import { type OpenedInput, openLocalInput } from "./foreign-input.ts";
import { tableId } from "./names.ts";
import { inRunTransaction } from "./run-transaction.ts";
import { NOW, type Session } from "./session.ts";
import { requireSameEpoch } from "./suppression.ts";

/**
 * Compares the keys that a job knows with those of its input, notes those that have left it, and forgets those that are
 * back. Nothing of the rows but their keys is read.
 */
export async function noteMissingRows(
  session: Session,
  run: RunRef,
  watched: WatchedInput,
  openForeign: ((reading: Reading) => Promise<OpenedInput>) | null,
  suppression: Suppression,
): Promise<MissingRows> {
  const reading = { type: watched.type, ranked: false, recent: null, isSharded: false };
  const opened = openForeign
    ? await openForeign(reading)
    : await openLocalInput(session, { ...watched, input: keysOf(watched.input) }, reading);
  try {
    return await compareKeys(session, run, watched, opened.rawRows, suppression);
  } finally {
    await opened.close();
  }
}

/** An input without anything but its keys. */
export function keysOf(input: InputSource): InputSource {
  return { ...input, cursor: null, fields: {} };
}

async function compareKeys(
  session: Session,
  run: RunRef,
  { job, type, input }: WatchedInput,
  rows: string,
  suppression: Suppression,
): Promise<MissingRows> {
  const { names } = session;
  const missing = tableId(names, "data", "missing_input_row");
  const known =
    type === "validate_emails"
      ? sql`SELECT DISTINCT source_key FROM ${tableId(names, "data", "input_email")} WHERE source = _etl_source`
      : sql`SELECT source_key FROM ${tableId(names, "data", "lookup_state")} WHERE job = _etl_job AND source = _etl_source`;
  const [counts] = await inRunTransaction<MissingRows>(session, run, {
    declare: [
      sql`_etl_source STRING DEFAULT ${input.name}`,
      sql`_etl_job STRING DEFAULT ${job}`,
      sql`_etl_run STRING DEFAULT ${run.runId}`,
      sql`_etl_missing INT64 DEFAULT 0`,
    ],
    statements: [
      requireSameEpoch(names, suppression),
      sql`CREATE TEMP TABLE input_key AS
        SELECT DISTINCT source_key FROM (${sql.raw(rows)}) AS r WHERE source_key IS NOT NULL`,
      sql`CREATE TEMP TABLE known_key AS ${known}`,
      sql`DELETE FROM ${missing} WHERE source = _etl_source AND source_key IN (SELECT i.source_key FROM input_key AS i)`,
      sql`INSERT INTO ${missing} (source, source_key, missing_since, _synced_at, _run_id)
        SELECT _etl_source, k.source_key, ${NOW}, ${NOW}, _etl_run FROM known_key AS k
        WHERE NOT EXISTS (SELECT 1 FROM input_key AS i WHERE i.source_key = k.source_key)
          AND NOT EXISTS (SELECT 1 FROM ${missing} AS m WHERE m.source = _etl_source AND m.source_key = k.source_key)`,
      sql`SET _etl_missing = (SELECT COUNT(*) FROM ${missing} WHERE source = _etl_source)`,
    ],
    outcome: sql<MissingRows>`SELECT (SELECT COUNT(*) FROM input_key) AS inputRows, (SELECT COUNT(*) FROM known_key) AS known,
      _etl_missing AS missing`,
  });
  return counts ?? { inputRows: 0, known: 0, missing: 0 };
}

/** Keys that have left an input, at most so many. */
export async function readMissingRows(
  session: Session,
  source: string,
  limit: number,
): Promise<readonly string[]> {
  const rows = await session.rows<{ source_key: string }>(sql`
    SELECT source_key FROM ${tableId(session.names, "data", "missing_input_row")} WHERE source = ${source}
    ORDER BY source_key LIMIT ${sql.raw(String(limit))}`);
  return rows.map((row) => row.source_key);
}
