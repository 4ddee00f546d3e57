import { type RawBuilder, sql } from "kysely";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { InputShard } from "../due/lookup-spec.ts";
import { answerTables } from "./load-answers.ts";

/**
 * Marks answers as outdated: the row's content changed, was rejected, or left the input. Returns how many
 * rows changed.
 * @param keys query of the rows' keys
 */
export async function unmarkPresent(
  session: Session,
  names: SchemaNames,
  {
    job,
    type,
    source,
  }: { readonly job: string; readonly type: "resolve" | "enrich"; readonly source: string },
  keys: RawBuilder<unknown>,
): Promise<number> {
  return session.change(sql`
    UPDATE ${tableId(names, answerTables[type].table)} SET is_present = false, _synced_at = now(),
      _run_id = current_setting('person_etl.run_id', true)
    WHERE job = ${job} AND source = ${source} AND is_present AND source_key IN (${keys})`);
}

/** Answers of a job whose presence a selection determines. */
export interface SelectedAnswers {
  readonly job: string;
  readonly type: "resolve" | "enrich";
  readonly source: string;
  /** Part of the input that was selected; null for all. */
  readonly shard: InputShard | null;
}

/**
 * Marks the answers of matched rows with unchanged content, and unmarks those of rows that changed or left the input.
 * Each shard marks its own rows, and the first one detects missing rows of all. Reads the temporary tables `matched_row`
 * and `input_key`; returns the number of changed answers.
 */
export async function markPresent(
  session: Session,
  names: SchemaNames,
  { job, type, source, shard }: SelectedAnswers,
): Promise<number> {
  const answers = tableId(names, answerTables[type].table);
  const set = sql`_synced_at = now(), _run_id = current_setting('person_etl.run_id', true)`;
  const isOfRow = sql`m.source_key = t.source_key`;
  const isCurrent = sql`EXISTS (SELECT FROM pg_temp.matched_row AS m WHERE ${isOfRow} AND m.is_current)`;
  const outdated = [
    shard
      ? sql`EXISTS (SELECT FROM pg_temp.matched_row AS m WHERE ${isOfRow} AND NOT m.is_current)`
      : sql`NOT ${isCurrent}`,
    ...(shard?.index === 0 ? [sql`NOT EXISTS (SELECT FROM pg_temp.input_key AS m WHERE ${isOfRow})`] : []),
  ];
  let changed = 0;
  for (const isOutdated of outdated) {
    changed += await session.change(sql`
      UPDATE ${answers} AS t SET is_present = false, ${set}
      WHERE t.job = ${job} AND t.source = ${source} AND t.is_present AND ${isOutdated}`);
  }
  changed += await session.change(sql`
    UPDATE ${answers} AS t SET is_present = true, ${set}
    WHERE t.job = ${job} AND t.source = ${source} AND NOT t.is_present AND ${isCurrent}`);
  return changed;
}
