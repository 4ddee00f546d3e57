import { type RawBuilder, sql } from "kysely";
import { enrichFields } from "../../schemas/enrich.ts";
import { resolveFields } from "../../schemas/resolve.ts";
import { quoteIdentifier, tableId } from "../db/names.ts";
import {
  type AnsweredRows,
  type AnswerTable,
  claimRows,
  lookUp,
  resolveAnswered,
  rowsOfAnswers,
} from "./answered-rows.ts";
import type { LoadContext, LookupContext } from "./load-context.ts";
import type { LookupAnswer } from "./answer.ts";
import type { LoadSpec } from "../due/lookup-spec.ts";

/** Columns of every answer, besides those of the endpoint. */
const commonColumns = ["api_request_id", "request_completed_at", "_extra"];

const answerTable = (table: string, fields: readonly string[]): AnswerTable => ({
  table,
  columns: [...fields, ...commonColumns],
  cellsOf: ({ cells, apiRequestId, answeredAt, extra }) => [...cells, apiRequestId, answeredAt, extra],
});

/** Tables with one answer per input row. */
export const answerTables = {
  resolve: answerTable("resolution", Object.keys(resolveFields)),
  enrich: answerTable("enrichment", Object.keys(enrichFields)),
};

/** A lookup with one answer per input row. */
export type RowLookup = LoadSpec & { readonly type: keyof typeof answerTables };

/** Match times of a row `t` with a new answer (`excluded`); a non-match changes none of them. */
const MATCH_TIMES = `first_matched_at = coalesce(t.first_matched_at, excluded.first_matched_at),
  last_matched_at = coalesce(excluded.last_matched_at, t.last_matched_at),
  last_matched_service_pid = CASE WHEN excluded.last_matched_at IS NULL THEN t.last_matched_service_pid
    ELSE excluded.last_matched_service_pid END`;

/** Loads the answers of a resolve or enrich job for all of their input rows. */
export async function loadAnswers(
  context: LookupContext,
  spec: RowLookup,
  answers: readonly LookupAnswer[],
): Promise<void> {
  await writeAnswers(context, spec, rowsOfAnswers(context, spec, answers, answerTables[spec.type]));
}

/** A column of the new answer `s` of a matched row. */
const matched = (column: string) => sql.raw(`CASE WHEN s.outcome = 'matched' THEN s.${column} END`);

/** Writes answers, and the states and the history of their rows. */
export async function writeAnswers(context: LoadContext, spec: RowLookup, rows: AnsweredRows): Promise<void> {
  const { session, names, runId } = context;
  const { table, columns } = answerTables[spec.type];
  const list = columns.map(quoteIdentifier);
  const set = [
    ...[...list, "is_present"].map((column) => `${column} = excluded.${column}`),
    MATCH_TIMES,
  ].join(", ");
  // Rows without an answer have no history.
  const [written] = await session.rows<{ rejected: number; rows: number; first: number }>(sql`
    WITH ${claimRows(context, spec, rows)},
    written AS (
      INSERT INTO ${tableId(names, table)} AS t (job, source, source_key, ${sql.raw(list.join(", "))},
        is_present, first_matched_at, last_matched_at, last_matched_service_pid, _synced_at, _run_id)
      SELECT ${spec.job}, ${spec.input.name}, source_key, ${sql.raw(list.map((column) => `s.${column}`).join(", "))},
        s.outcome = 'matched', ${matched("request_completed_at")}, ${matched("request_completed_at")}, ${matched("service_pid")},
        now(), ${runId}
      FROM claimed JOIN staged AS s USING (source_key)
      ON CONFLICT (job, source, source_key) DO UPDATE SET ${sql.raw(set)}, _synced_at = excluded._synced_at,
        _run_id = excluded._run_id
      RETURNING source_key, is_match, service_pid, match_score, request_completed_at, xmax = 0 AS is_first),
    opened AS (
      INSERT INTO ${tableId(names, "match_history")} (job, source, source_key, valid_from, is_match, service_pid, match_score,
        _synced_at, _run_id)
      SELECT ${spec.job}, ${spec.input.name}, source_key, request_completed_at, is_match, service_pid, match_score, now(), ${runId}
      FROM written WHERE is_first)
    SELECT (SELECT count(*) FROM staged WHERE prior = 'rejected') AS rejected, count(*) AS rows,
      count(*) FILTER (WHERE is_first) AS first
    FROM written`);
  const { rejected, rows: answered, first } = written ?? { rejected: 0, rows: 0, first: 0 };
  context.touch(table, answered);
  context.touch("match_history", first);
  if (first < answered) await moveHistory(context, spec, rows.keys);
  if (rejected > 0) await resolveAnswered(context, spec, rows);
}

/**
 * Closes the interval of each row whose match, PID or score changed, and opens the next. A separate statement: the rows are
 * locked by now, so that the interval that another loader opened for them is visible.
 */
async function moveHistory(context: LoadContext, spec: RowLookup, keys: RawBuilder<unknown>): Promise<void> {
  const { session, names, runId } = context;
  const history = tableId(names, "match_history");
  const isOfRow = sql`job = ${spec.job} AND source = ${spec.input.name} AND source_key = k.source_key`;
  const last = sql`SELECT ctid, valid_from, valid_to, is_match, service_pid, match_score FROM ${history}
    WHERE ${isOfRow} ORDER BY valid_from DESC`;
  const answer = sql`SELECT is_match, service_pid, match_score, request_completed_at
    FROM ${tableId(names, answerTables[spec.type].table)} WHERE ${isOfRow}`;
  // Times of the service may run backwards, intervals must not.
  const [moved] = await session.rows<{ rows: number }>(sql`
    WITH changed AS MATERIALIZED (
      SELECT k.source_key, a.is_match, a.service_pid, a.match_score, h.ctid AS last, h.valid_to IS NULL AS is_open,
        greatest(a.request_completed_at, h.valid_to, h.valid_from + interval '1 microsecond') AS changed_at
      FROM (${keys}) AS k ${lookUp(answer, "a")} ${lookUp(last, "h")}
      WHERE a.request_completed_at IS NOT NULL AND (h.valid_from IS NULL OR h.valid_to IS NOT NULL
        OR (h.is_match, h.service_pid, h.match_score) IS DISTINCT FROM (a.is_match, a.service_pid, a.match_score))),
    closed AS (
      UPDATE ${history} AS h SET valid_to = c.changed_at, _synced_at = now(), _run_id = ${runId}
      FROM changed AS c WHERE c.is_open AND h.ctid = c.last
      RETURNING h.source_key),
    opened AS (
      INSERT INTO ${history} (job, source, source_key, valid_from, is_match, service_pid, match_score, _synced_at, _run_id)
      SELECT ${spec.job}, ${spec.input.name}, source_key, changed_at, is_match, service_pid, match_score, now(), ${runId}
      FROM changed
      RETURNING source_key)
    SELECT (SELECT count(*) FROM closed) + (SELECT count(*) FROM opened) AS rows`);
  context.touch("match_history", moved?.rows ?? 0);
}
