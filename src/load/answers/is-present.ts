import { type RawBuilder, sql } from "kysely";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
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
  /** True if the selection read only a part of the input. */
  readonly isSharded: boolean;
  /** In a shard, query of the keys of the whole input, to find rows that left it; null to leave that to another shard. */
  readonly inputKeys: RawBuilder<unknown> | null;
}

/**
 * Marks the answers of matched rows whose content is unchanged, and unmarks those whose row changed or left the input, whether
 * the row is due or waits. Reads the temporary table `matched_row`. Returns how many changed.
 */
export async function markPresent(
  session: Session,
  names: SchemaNames,
  { job, type, source, isSharded, inputKeys }: SelectedAnswers,
): Promise<number> {
  const answers = tableId(names, answerTables[type].table);
  const set = sql`_synced_at = now(), _run_id = current_setting('person_etl.run_id', true)`;
  const isOfRow = sql`m.source_key = t.source_key`;
  const isCurrent = sql`EXISTS (SELECT FROM pg_temp.matched_row AS m WHERE ${isOfRow} AND m.is_current)`;
  const outdated = [
    isSharded
      ? sql`EXISTS (SELECT FROM pg_temp.matched_row AS m WHERE ${isOfRow} AND NOT m.is_current)`
      : sql`NOT ${isCurrent}`,
    ...(inputKeys ? [sql`NOT EXISTS (SELECT FROM (${inputKeys}) AS m WHERE ${isOfRow})`] : []),
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
