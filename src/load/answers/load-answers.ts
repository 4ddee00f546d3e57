import { sql } from "kysely";
import { enrichFields } from "../../schemas/enrich.ts";
import { resolveFields } from "../../schemas/resolve.ts";
import { quoteIdentifier, tableId } from "../db/names.ts";
import type { LoadContext, LookupContext } from "./load-context.ts";
import {
  type AnswerTable,
  dropStage,
  lookUp,
  resolveStaged,
  STAGED,
  stageAnswers,
  type StagedRows,
  writeStates,
} from "./stage-answers.ts";
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
  const staged = await stageAnswers(context, spec, answers, answerTables[spec.type]);
  await writeStaged(context, spec, staged);
}

/** Writes staged answers, the history and the states of their rows. */
export async function writeStaged(context: LoadContext, spec: RowLookup, staged: StagedRows): Promise<void> {
  // Waits for another loader of the same rows, so that its interval is visible.
  await writeAnswers(context, spec, answerTables[spec.type]);
  await moveHistory(context, spec);
  await writeStates(context, spec);
  await resolveStaged(context, spec, staged);
  await dropStage(context);
}

async function writeAnswers(
  context: LoadContext,
  spec: LoadSpec,
  { table, columns }: AnswerTable,
): Promise<void> {
  const { session, names, runId } = context;
  const list = columns.map(quoteIdentifier);
  const set = [
    ...[...list, "is_present"].map((column) => `${column} = excluded.${column}`),
    MATCH_TIMES,
  ].join(", ");
  const matchedAt = sql`CASE WHEN s.answer_outcome = 'matched' THEN s.request_completed_at END`;
  const written = await session.change(sql`
    INSERT INTO ${tableId(names, table)} AS t (job, source, source_key, ${sql.raw(list.join(", "))},
      is_present, first_matched_at, last_matched_at, last_matched_service_pid, _synced_at, _run_id)
    SELECT ${spec.job}, ${spec.input.name}, r.source_key, ${sql.raw(list.map((column) => `s.${column}`).join(", "))},
      s.answer_outcome = 'matched', ${matchedAt}, ${matchedAt}, CASE WHEN s.answer_outcome = 'matched' THEN s.service_pid END, now(), ${runId}
    FROM ${STAGED} ORDER BY r.source_key COLLATE "C"
    ON CONFLICT (job, source, source_key) DO UPDATE SET ${sql.raw(set)}, _synced_at = excluded._synced_at,
      _run_id = excluded._run_id`);
  context.touch(table, written);
}

/** Closes the interval of each staged row whose match, PID or score changed, and opens the next. */
async function moveHistory(context: LoadContext, spec: LoadSpec): Promise<void> {
  const { session, names, runId } = context;
  const history = tableId(names, "match_history");
  const last = sql`SELECT ctid, valid_from, valid_to, is_match, service_pid, match_score FROM ${history}
    WHERE job = ${spec.job} AND source = ${spec.input.name} AND source_key = r.source_key ORDER BY valid_from DESC`;
  // Times of the service may run backwards, intervals must not.
  const [moved] = await session.rows<{ rows: number }>(sql`
    WITH changed AS MATERIALIZED (
      SELECT r.source_key, s.is_match, s.service_pid, s.match_score, h.ctid AS last, h.valid_to IS NULL AS is_open,
        greatest(s.request_completed_at, h.valid_to, h.valid_from + interval '1 microsecond') AS changed_at
      FROM ${STAGED} ${lookUp(last, "h")}
      WHERE h.valid_from IS NULL OR h.valid_to IS NOT NULL
        OR (h.is_match, h.service_pid, h.match_score) IS DISTINCT FROM (s.is_match, s.service_pid, s.match_score)),
    closed AS (
      UPDATE ${history} AS h SET valid_to = c.changed_at, _synced_at = now(), _run_id = ${runId}
      FROM changed AS c WHERE c.is_open AND h.ctid = c.last
      RETURNING h.source_key),
    opened AS (
      INSERT INTO ${history} (job, source, source_key, valid_from, is_match, service_pid, match_score, _synced_at, _run_id)
      SELECT ${spec.job}, ${spec.input.name}, source_key, changed_at, is_match, service_pid, match_score, now(), ${runId}
      FROM changed ORDER BY source_key COLLATE "C"
      RETURNING source_key)
    SELECT (SELECT count(*) FROM closed) + (SELECT count(*) FROM opened) AS rows`);
  context.touch("match_history", moved?.rows ?? 0);
}
