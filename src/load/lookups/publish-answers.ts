import { type RawBuilder, sql } from "kysely";
import { enrichFields } from "../../schemas/enrich.ts";
import { resolveFields } from "../../schemas/resolve.ts";
import { quoteIdentifier, type SchemaNames, tableId } from "../db/names.ts";
import type { AnsweredRows, LoadContext } from "./answer.ts";
import type { LookupType } from "./lookup.ts";

/** Job type with one published row per input row. */
export type RowLookupType = Exclude<LookupType, "validate_emails">;

/** Published tables, and the columns that they copy from `lookup_answer`. */
export const answerTables: Readonly<
  Record<RowLookupType, { readonly table: string; readonly fields: readonly string[] }>
> = {
  resolve: { table: "resolution", fields: Object.keys(resolveFields) },
  enrich: { table: "enrichment", fields: Object.keys(enrichFields) },
};

/** Match times of a row `t` with a new answer (`excluded`); a non-match changes none of them. */
const MATCH_TIMES = `first_matched_at = coalesce(t.first_matched_at, excluded.first_matched_at),
  last_matched_at = coalesce(excluded.last_matched_at, t.last_matched_at),
  last_matched_service_pid = CASE WHEN excluded.last_matched_at IS NULL THEN t.last_matched_service_pid
    ELSE excluded.last_matched_service_pid END`;

/** Columns that differ if a row doesn't show its answer yet. */
const SHOWN = ["api_request_id", "request_completed_at", "is_match", "service_pid", "is_present"];

/**
 * Joins at most one row, by an index lookup for each row. Without statistics, as on a first run, Postgres
 * would read the whole table for each commit instead.
 */
function lateralOne(query: RawBuilder<unknown>, alias: string): RawBuilder<unknown> {
  return sql`LEFT JOIN LATERAL (${query} LIMIT 1) AS ${sql.id(alias)} ON true`;
}

/** Those columns of a row. */
const shown = (alias: string) => sql.raw(`(${SHOWN.map((name) => `${alias}.${name}`).join(", ")})`);
/** A column of the answer `s` of a matched row. */
const matched = (column: string) => sql.raw(`CASE WHEN s.outcome = 'matched' THEN s.${column} END`);

/** Writes the published rows of input rows with an answer, and their match history. The only place that does. */
export async function publishAnswers(
  context: LoadContext,
  type: RowLookupType,
  rows: AnsweredRows,
): Promise<void> {
  const { session, names, runId } = context;
  const { table, fields } = answerTables[type];
  const copied = [
    ...fields.map((name) => [name, name === "is_match" ? "s.outcome = 'matched'" : `s.${name}`] as const),
    ["api_request_id", "s.api_request_id"] as const,
    ["request_completed_at", "s.request_completed_at"] as const,
    ["_extra", "s.extra"] as const,
    ["is_present", "s.outcome = 'matched' AND NOT s.is_missing"] as const,
  ];
  const list = sql.raw(copied.map(([name]) => quoteIdentifier(name)).join(", "));
  const values = sql.raw(copied.map(([, value]) => value).join(", "));
  const set = [
    ...copied.map(([name]) => `${quoteIdentifier(name)} = excluded.${quoteIdentifier(name)}`),
    MATCH_TIMES,
  ];
  // Rows without an answer have no history.
  const [written] = await session.rows<{ rows: number; first: number }>(sql`
    WITH staged AS MATERIALIZED (${rows}),
    written AS (
      INSERT INTO ${tableId(names, table)} AS t (job, source, source_key, ${list}, first_matched_at, last_matched_at,
        last_matched_service_pid, _synced_at, _run_id)
      SELECT job, source, source_key, ${values}, ${matched("request_completed_at")}, ${matched("request_completed_at")},
        ${matched("service_pid")}, now(), ${runId}
      FROM staged AS s WHERE s.outcome <> 'rejected' ORDER BY source_key COLLATE "C", source COLLATE "C", job COLLATE "C"
      ON CONFLICT (job, source, source_key) DO UPDATE SET ${sql.raw(set.join(", "))}, _synced_at = excluded._synced_at,
        _run_id = excluded._run_id
      WHERE ${shown("t")} IS DISTINCT FROM ${shown("excluded")}
      RETURNING job, source, source_key, is_match, service_pid, match_score, request_completed_at, xmax = 0 AS is_first),
    opened AS (
      INSERT INTO ${tableId(names, "match_history")} (job, source, source_key, valid_from, is_match, service_pid, match_score,
        _synced_at, _run_id)
      SELECT job, source, source_key, request_completed_at, is_match, service_pid, match_score, now(), ${runId}
      FROM written WHERE is_first)
    SELECT count(*) AS rows, count(*) FILTER (WHERE is_first) AS first FROM written`);
  const { rows: changed, first } = written ?? { rows: 0, first: 0 };
  context.touch(table, changed);
  context.touch("match_history", first);
  if (first < changed) await moveHistory(context, type, rows);
}

/** Empties the fingerprints of rows in jobs that send their PIDs, which thus read them again. @param rows name of a CTE of `job, source, source_key` */
export function readDependents(names: SchemaNames, rows: string): RawBuilder<unknown> {
  return sql`UPDATE ${tableId(names, "lookup_row")} AS d SET fingerprint = NULL
      FROM ${sql.id(rows)} AS c JOIN ${tableId(names, "lookup_job")} AS j ON j.pid_from = c.job AND j.source = c.source
      WHERE d.job = j.job AND d.source = j.source AND d.source_key = c.source_key`;
}

/**
 * Closes the interval of each row whose match, PID or score changed, and opens the next. A separate statement: the rows are
 * locked by now, so that the interval that another loader opened for them is visible. Jobs that send the PIDs of the rows
 * read them again.
 */
async function moveHistory(context: LoadContext, type: RowLookupType, rows: AnsweredRows): Promise<void> {
  const { session, names, runId } = context;
  const history = tableId(names, "match_history");
  const isOfRow = sql`job = k.job AND source = k.source AND source_key = k.source_key`;
  const last = sql`SELECT ctid, valid_from, valid_to, is_match, service_pid, match_score FROM ${history}
    WHERE ${isOfRow} ORDER BY valid_from DESC`;
  const answer = sql`SELECT is_match, service_pid, match_score, request_completed_at
    FROM ${tableId(names, answerTables[type].table)} WHERE ${isOfRow}`;
  // Times of the service may run backwards, intervals must not.
  const [moved] = await session.rows<{ rows: number }>(sql`
    WITH changed AS MATERIALIZED (
      SELECT k.job, k.source, k.source_key, a.is_match, a.service_pid, a.match_score, h.ctid AS last, h.valid_to IS NULL AS is_open,
        greatest(a.request_completed_at, h.valid_to, h.valid_from + interval '1 microsecond') AS changed_at
      FROM (${rows}) AS k ${lateralOne(answer, "a")} ${lateralOne(last, "h")}
      WHERE a.request_completed_at IS NOT NULL AND (h.valid_from IS NULL OR h.valid_to IS NOT NULL
        OR (h.is_match, h.service_pid, h.match_score) IS DISTINCT FROM (a.is_match, a.service_pid, a.match_score))),
    closed AS (
      UPDATE ${history} AS h SET valid_to = c.changed_at, _synced_at = now(), _run_id = ${runId}
      FROM changed AS c WHERE c.is_open AND h.ctid = c.last
      RETURNING h.source_key),
    opened AS (
      INSERT INTO ${history} (job, source, source_key, valid_from, is_match, service_pid, match_score, _synced_at, _run_id)
      SELECT job, source, source_key, changed_at, is_match, service_pid, match_score, now(), ${runId}
      FROM changed
      RETURNING source_key),
    dependent AS (${readDependents(names, "changed")})
    SELECT (SELECT count(*) FROM closed) + (SELECT count(*) FROM opened) AS rows`);
  context.touch("match_history", moved?.rows ?? 0);
}

/** Marks the published answers of rows as outdated: their content changed, was rejected, or left the input. @param keys query of the rows' keys */
export async function unmarkPresent(
  { session, names, runId, touch }: LoadContext,
  { job, source, type }: { readonly job: string; readonly source: string; readonly type: RowLookupType },
  keys: RawBuilder<unknown>,
): Promise<void> {
  const { table } = answerTables[type];
  const changed = await session.change(sql`
    UPDATE ${tableId(names, table)} SET is_present = false, _synced_at = now(), _run_id = ${runId}
    WHERE job = ${job} AND source = ${source} AND is_present AND source_key IN (${keys})`);
  touch(table, changed);
}
