import { sql } from "kysely";
import { enrichFields } from "../../schemas/enrich.ts";
import { resolveFields } from "../../schemas/resolve.ts";
import { quoteIdentifier, tableId } from "../db/names.ts";
import type { LoadSpec, LookupAnswer } from "../lookup.ts";
import type { LookupPlace } from "./load-place.ts";
import {
  type AnswerTable,
  dropStage,
  resolveStaged,
  STAGED,
  stageAnswers,
  type StagedRows,
  writeStates,
} from "./stage-answers.ts";

const answerTables = {
  resolve: { table: "resolution", fields: Object.keys(resolveFields) },
  enrich: { table: "enrichment", fields: Object.keys(enrichFields) },
} as const;

/** Columns of every answer beside the endpoint's own. */
const commonColumns = ["api_request_id", "request_completed_at", "_extra"];

/** Later match times of a row `t` with a new answer (`excluded`); a non-match changes none of them. */
export const MATCH_TIMES = `first_matched_at = coalesce(t.first_matched_at, excluded.first_matched_at),
  last_matched_at = coalesce(excluded.last_matched_at, t.last_matched_at),
  last_matched_service_pid = CASE WHEN excluded.last_matched_at IS NULL THEN t.last_matched_service_pid
    ELSE excluded.last_matched_service_pid END`;

/** Loads the answers of a resolve or enrich job for all input rows behind them. */
export async function loadAnswers(
  place: LookupPlace,
  spec: LoadSpec & { readonly type: "resolve" | "enrich" },
  answers: readonly LookupAnswer[],
): Promise<void> {
  const { table, fields } = answerTables[spec.type];
  const columns = [...fields, ...commonColumns];
  const target: AnswerTable = {
    table,
    columns,
    cellsOf: ({ cells, apiRequestId, answeredAt, extra }) => [...cells, apiRequestId, answeredAt, extra],
  };
  const staged = await stageAnswers(place, spec, answers, target);
  await moveHistory(place, spec, staged);
  await writeAnswers(place, spec, target);
  await writeStates(place, spec);
  await resolveStaged(place, spec, staged);
  await dropStage(place);
}

async function writeAnswers(
  place: LookupPlace,
  spec: LoadSpec,
  { table, columns }: AnswerTable,
): Promise<void> {
  const { session, names, runId } = place;
  const list = columns.map(quoteIdentifier);
  const set = [...list.map((column) => `${column} = excluded.${column}`), MATCH_TIMES].join(", ");
  const matchedAt = sql`CASE WHEN s.answer_outcome = 'matched' THEN s.request_completed_at END`;
  const written = await session.change(sql`
    INSERT INTO ${tableId(names, table)} AS t (job, source, source_key, ${sql.raw(list.join(", "))},
      first_matched_at, last_matched_at, last_matched_service_pid, _synced_at, _run_id)
    SELECT ${spec.job}, ${spec.input.name}, r.source_key, ${sql.raw(list.map((column) => `s.${column}`).join(", "))},
      ${matchedAt}, ${matchedAt}, CASE WHEN s.answer_outcome = 'matched' THEN s.service_pid END, now(), ${runId}
    FROM ${STAGED} ORDER BY r.source_key COLLATE "C"
    ON CONFLICT (job, source, source_key) DO UPDATE SET ${sql.raw(set)}, _synced_at = excluded._synced_at,
      _run_id = excluded._run_id`);
  place.touch(table, written);
}

/** Closes the interval of each staged row whose match, PID or score changed, and opens the next. */
async function moveHistory(place: LookupPlace, spec: LoadSpec, { known }: StagedRows): Promise<void> {
  const { session, names, runId } = place;
  const history = tableId(names, "match_history");
  const isOpen = sql`h.job = ${spec.job} AND h.source = ${spec.input.name} AND h.source_key = r.source_key AND h.valid_to IS NULL`;
  const closed =
    known === 0
      ? 0
      : await session.change(sql`
    UPDATE ${history} AS h SET valid_to = s.request_completed_at, _synced_at = now(), _run_id = ${runId}
    FROM ${STAGED}
    WHERE ${isOpen} AND h.valid_from < s.request_completed_at
      AND (h.is_match, h.service_pid, h.match_score) IS DISTINCT FROM (s.is_match, s.service_pid, s.match_score)`);
  const opened = await session.change(sql`
    INSERT INTO ${history} (job, source, source_key, valid_from, valid_to, is_match, service_pid, match_score, _synced_at, _run_id)
    SELECT ${spec.job}, ${spec.input.name}, r.source_key, s.request_completed_at, NULL, s.is_match, s.service_pid,
      s.match_score, now(), ${runId}
    FROM ${STAGED} WHERE NOT EXISTS (SELECT FROM ${history} AS h WHERE ${isOpen})
    ORDER BY r.source_key COLLATE "C" ON CONFLICT DO NOTHING`);
  place.touch("match_history", closed + opened);
}
