import { type RawBuilder, sql } from "kysely";
import type { Cell } from "../../schemas/convert.ts";
import { copyRows } from "../db/copy.ts";
import { quoteIdentifier, tableId, tableText } from "../db/names.ts";
import { HASH_VERSION } from "../due/content.ts";
import { dueAt } from "../due/due-at.ts";
import type { LoadSpec, LookupAnswer } from "../lookup.ts";
import type { LookupPlace } from "./load-place.ts";

/** Staged rows `r` with the answer `s` of each. */
export const STAGED = sql`pg_temp.stage_row AS r JOIN pg_temp.stage_answer AS s USING (record_id)`;

/** Input rows behind staged answers. */
export interface StagedRows {
  readonly rows: number;
  /** Rows that have a state. */
  readonly known: number;
  /** Rows that were rejected before. */
  readonly rejected: number;
}

/**
 * Stages answers in `stage_answer`, one row each, and the input rows behind them in `stage_row`. Rows that have a newer
 * answer are left out.
 * @param table has the columns.
 */
export async function stageAnswers(
  place: LookupPlace,
  spec: LoadSpec,
  answers: readonly LookupAnswer[],
  { table, columns, cellsOf }: AnswerTable,
): Promise<StagedRows> {
  const { session, names } = place;
  const list = columns.map(quoteIdentifier).join(", ");
  const source = tableText(names, table);
  await session.client.query(`CREATE TEMP TABLE stage_answer ON COMMIT DROP AS
    SELECT NULL::bigint AS record_id, NULL::text AS answer_outcome, NULL::bytea AS sent_hash, NULL::text AS sent_service_pid,
      NULL::uuid AS call_id, ${list} FROM ${source} LIMIT 0`);
  await copyRows(
    session,
    "pg_temp.stage_answer",
    ["record_id", "answer_outcome", "sent_hash", "sent_service_pid", "call_id", ...columns],
    answers.map((answer) => {
      const { record, outcome, callId } = answer;
      return [record.recordId, outcome, `\\x${record.sentHash}`, record.sentPid, callId, ...cellsOf(answer)];
    }),
  );
  await session.change(sql`
    CREATE TEMP TABLE stage_row ON COMMIT DROP AS
    SELECT w.ord AS record_id, w.source_key, w.input_hash, t.outcome AS prior
    FROM pg_temp.stage_answer AS s JOIN ${place.rows} AS w ON w.ord = s.record_id
    LEFT JOIN ${tableId(names, "lookup_state")} AS t
      ON t.job = ${spec.job} AND t.source = ${spec.input.name} AND t.source_key = w.source_key
    WHERE w.source_key IS NOT NULL AND (t.answered_at IS NULL OR t.answered_at <= s.request_completed_at)
    ORDER BY w.source_key COLLATE "C"`);
  const [staged] = await session.rows<StagedRows>(sql`
    SELECT count(*) AS rows, count(*) FILTER (WHERE prior IS NOT NULL) AS known,
      count(*) FILTER (WHERE prior = 'rejected') AS rejected FROM pg_temp.stage_row`);
  return staged ?? { rows: 0, known: 0, rejected: 0 };
}

/** Table of a job type's answers. */
export interface AnswerTable {
  readonly table: string;
  /** Columns of an answer, without those of the input row and the bookkeeping ones. */
  readonly columns: readonly string[];
  /** Cells in the order of the columns. */
  readonly cellsOf: (answer: LookupAnswer) => readonly Cell[];
}

/** Removes what is staged, so that the transaction can stage more. */
export async function dropStage({ session }: LookupPlace): Promise<void> {
  await session.client.query("DROP TABLE pg_temp.stage_answer, pg_temp.stage_row");
}

/** Writes the states of staged rows. */
export async function writeStates(place: LookupPlace, spec: LoadSpec): Promise<void> {
  const { session, names, runId } = place;
  const due = dueAt(spec, {
    answeredAt: "s.request_completed_at",
    outcome: "s.answer_outcome",
    sentHash: "s.sent_hash",
    isFirst: "r.prior IS NULL",
  });
  await session.change(sql`
    INSERT INTO ${tableId(names, "lookup_state")} AS t (job, source, source_key, input_hash, sent_hash, hash_version,
      parameters_hash, sent_service_pid, outcome, attempts, answered_at, due_at, call_id, _synced_at, _run_id)
    SELECT ${spec.job}, ${spec.input.name}, r.source_key, r.input_hash, s.sent_hash, ${HASH_VERSION}, ${spec.parametersHash},
      s.sent_service_pid, s.answer_outcome, 1, s.request_completed_at, ${due}, s.call_id, now(), ${runId}
    FROM ${STAGED} ORDER BY r.source_key COLLATE "C"
    ON CONFLICT (job, source, source_key) DO UPDATE SET input_hash = excluded.input_hash, sent_hash = excluded.sent_hash,
      hash_version = excluded.hash_version, parameters_hash = excluded.parameters_hash,
      sent_service_pid = excluded.sent_service_pid, outcome = excluded.outcome, attempts = t.attempts + 1,
      answered_at = excluded.answered_at, due_at = excluded.due_at, call_id = excluded.call_id,
      _synced_at = excluded._synced_at, _run_id = excluded._run_id`);
}

/** Resolves the open rejects of input rows. @param keys query of their keys */
export async function resolveRejects(
  { session, names, touch }: LookupPlace,
  spec: LoadSpec,
  keys: RawBuilder<unknown>,
): Promise<void> {
  const resolved = await session.change(sql`
    UPDATE ${tableId(names, "reject")} SET resolved_at = now(), _synced_at = now()
    WHERE job = ${spec.job} AND source = ${spec.input.name} AND resolved_at IS NULL AND source_key IN (${keys})`);
  touch("reject", resolved);
}

/** Resolves the open rejects of staged rows. */
export async function resolveStaged(
  place: LookupPlace,
  spec: LoadSpec,
  { rejected }: StagedRows,
): Promise<void> {
  if (rejected === 0) return;
  await resolveRejects(place, spec, sql`SELECT source_key FROM pg_temp.stage_row WHERE prior = 'rejected'`);
}
