import { type RawBuilder, sql } from "kysely";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { InputShard } from "../due/lookup-spec.ts";
import { GONE } from "../due/find-candidates.ts";
import { answerTables } from "./load-answers.ts";
import { lookUp } from "./answered-rows.ts";

/** Bookkeeping columns of a changed answer. */
const CHANGED_NOW = sql`_synced_at = now(), _run_id = current_setting('person_etl.run_id', true)`;

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
    UPDATE ${tableId(names, answerTables[type].table)} SET is_present = false, ${CHANGED_NOW}
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
 * Marks the answers of matched rows with unchanged content, and unmarks those of rows that changed or left the input; forgets the
 * latter's fingerprints. Each shard marks its own rows, and the first one detects missing rows of all. Reads the temporary tables
 * `known_row` and `input_key`; returns the number of changed answers.
 */
export async function markPresent(
  session: Session,
  names: SchemaNames,
  { job, type, source, shard }: SelectedAnswers,
): Promise<number> {
  const answers = tableId(names, answerTables[type].table);
  const isOfRow = sql`m.source_key = t.source_key`;
  const isCurrent = sql`EXISTS (SELECT FROM pg_temp.known_row AS m WHERE ${isOfRow} AND m.is_current)`;
  const outdated = [
    shard
      ? sql`EXISTS (SELECT FROM pg_temp.known_row AS m WHERE ${isOfRow} AND NOT m.is_current)`
      : sql`NOT ${isCurrent}`,
    ...(shard?.index === 0 ? [sql`NOT EXISTS (SELECT FROM pg_temp.input_key AS m WHERE ${isOfRow})`] : []),
  ];
  let changed = 0;
  for (const isOutdated of outdated) {
    // With its fingerprint, a row that comes back would count as unchanged and present.
    const [unmarked] = await session.rows<{ rows: number }>(sql`
      WITH unmarked AS (
        UPDATE ${answers} AS t SET is_present = false, ${CHANGED_NOW}
        WHERE t.job = ${job} AND t.source = ${source} AND t.is_present AND ${isOutdated} RETURNING t.source_key),
      forgotten AS (
        UPDATE ${tableId(names, "lookup_state")} AS s SET fingerprint = NULL FROM unmarked AS u
        WHERE s.job = ${job} AND s.source = ${source} AND s.source_key = u.source_key)
      SELECT count(*) AS rows FROM unmarked`);
    changed += unmarked?.rows ?? 0;
  }
  changed += await session.change(sql`
    UPDATE ${answers} AS t SET is_present = true, ${CHANGED_NOW}
    WHERE t.job = ${job} AND t.source = ${source} AND NOT t.is_present AND ${isCurrent}`);
  return changed;
}

/**
 * Does the same with an index lookup for each classified row and each one that left the input; the answers of all other rows are
 * marked rightly.
 */
export async function markCandidates(
  session: Session,
  names: SchemaNames,
  { job, type, source }: Omit<SelectedAnswers, "shard">,
): Promise<number> {
  const answers = tableId(names, answerTables[type].table);
  return session.change(sql`
    UPDATE ${answers} AS t SET is_present = f.is_current, ${CHANGED_NOW}
    FROM (
      SELECT a.ctid, c.is_current
      FROM (SELECT source_key, is_current FROM pg_temp.known_row UNION ALL SELECT source_key, false FROM (${GONE}) AS g) AS c
      ${lookUp(
        sql`SELECT ctid, is_present FROM ${answers} WHERE job = ${job} AND source = ${source} AND source_key = c.source_key`,
        "a",
      )}
      WHERE a.is_present <> c.is_current) AS f
    WHERE t.ctid = f.ctid`);
}
