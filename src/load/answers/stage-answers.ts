import { type RawBuilder, sql } from "kysely";
import type { Cell } from "../../schemas/convert.ts";
import { copyRows } from "../db/copy.ts";
import { quoteIdentifier, tableId, tableText } from "../db/names.ts";
import { HASH_VERSION } from "../due/content.ts";
import { dueAt } from "../due/due-at.ts";
import type { LoadContext, LookupContext } from "./load-context.ts";
import type { LookupAnswer } from "./answer.ts";
import type { LoadSpec } from "../due/lookup-spec.ts";

/** Staged rows `r` with the answer `s` of each. */
export const STAGED = sql`pg_temp.stage_row AS r JOIN pg_temp.stage_answer AS s USING (record_id)`;

/** Input rows of staged answers. */
export interface StagedRows {
  readonly rows: number;
  /** Rows that have a state. */
  readonly known: number;
  /** Rows that were rejected before. */
  readonly rejected: number;
}

/** Table of a job type's answers. */
export interface AnswerTable {
  readonly table: string;
  /** Columns of an answer, without those of the input row and the bookkeeping ones. */
  readonly columns: readonly string[];
  /** Cells in the order of the columns. */
  readonly cellsOf: (answer: LookupAnswer) => readonly Cell[];
}

/**
 * Joins at most one row, by an index lookup for each staged row. Without statistics, as on a first night, Postgres
 * would read the whole table for each commit instead.
 */
export function lookUp(query: RawBuilder<unknown>, alias: string): RawBuilder<unknown> {
  return sql`LEFT JOIN LATERAL (${query} LIMIT 1) AS ${sql.id(alias)} ON true`;
}

/** Creates empty `stage_answer` and `stage_row`. */
export async function makeStage(
  { session, names }: LoadContext,
  { table, columns }: AnswerTable,
): Promise<void> {
  const list = columns.map(quoteIdentifier).join(", ");
  await session.client.query(`CREATE TEMP TABLE stage_answer ON COMMIT DROP AS
    SELECT NULL::bigint AS record_id, NULL::text AS answer_outcome, NULL::bytea AS sent_hash, NULL::text AS sent_service_pid,
      NULL::uuid AS call_id, ${list} FROM ${tableText(names, table)} LIMIT 0;
    CREATE TEMP TABLE stage_row (record_id bigint, source_key text, input_hash bytea, prior text, call_number bigint,
      answered_at timestamptz, due_at timestamptz, fingerprint bytea) ON COMMIT DROP`);
}

/**
 * Stages answers, one row each, and their input rows. Skips rows answered by a later call.
 * A call missing from the ledger counts as earlier than all others.
 */
export async function stageAnswers(
  context: LookupContext,
  spec: LoadSpec,
  answers: readonly LookupAnswer[],
  target: AnswerTable,
): Promise<StagedRows> {
  const { session, names } = context;
  await makeStage(context, target);
  await copyRows(
    session,
    "pg_temp.stage_answer",
    ["record_id", "answer_outcome", "sent_hash", "sent_service_pid", "call_id", ...target.columns],
    answers.map((answer) => {
      const { record, outcome, callId } = answer;
      return [
        record.recordId,
        outcome,
        `\\x${record.sentHash}`,
        record.sentPid,
        callId,
        ...target.cellsOf(answer),
      ];
    }),
  );
  const due = dueAt(spec, {
    answeredAt: "coalesce(c.reserved_at, now())",
    outcome: "s.answer_outcome",
    sentHash: "s.sent_hash",
    isFirst: "t.source_key IS NULL",
  });
  await session.change(sql`
    INSERT INTO pg_temp.stage_row
    SELECT w.ord, w.source_key, w.input_hash, t.outcome, coalesce(c.call_number, 0), coalesce(c.reserved_at, now()), ${due},
      w.fingerprint
    FROM pg_temp.stage_answer AS s JOIN ${context.rows} AS w ON w.ord = s.record_id
    ${lookUp(sql`SELECT call_number, reserved_at FROM ${tableId(names, "api_call")} WHERE call_id = s.call_id`, "c")}
    ${lookUp(
      sql`SELECT source_key, outcome, call_number FROM ${tableId(names, "lookup_state")}
        WHERE job = ${spec.job} AND source = ${spec.input.name} AND source_key = w.source_key`,
      "t",
    )}
    WHERE w.source_key IS NOT NULL AND (t.call_number IS NULL OR t.call_number <= coalesce(c.call_number, 0))
    ORDER BY w.source_key COLLATE "C"`);
  return countStaged(context);
}

/** Counts staged rows. */
export async function countStaged({ session }: LoadContext): Promise<StagedRows> {
  const [staged] = await session.rows<StagedRows>(sql`
    SELECT count(*) AS rows, count(*) FILTER (WHERE prior IS NOT NULL) AS known,
      count(*) FILTER (WHERE prior = 'rejected') AS rejected FROM pg_temp.stage_row`);
  return staged ?? { rows: 0, known: 0, rejected: 0 };
}

/** Drops the staging tables, so that the transaction can stage again. */
export async function dropStage({ session }: LoadContext): Promise<void> {
  await session.client.query("DROP TABLE pg_temp.stage_answer, pg_temp.stage_row");
}

/** Writes the states of staged rows. */
export async function writeStates(context: LoadContext, spec: LoadSpec): Promise<void> {
  const { session, names, runId } = context;
  await session.change(sql`
    INSERT INTO ${tableId(names, "lookup_state")} AS t (job, source, source_key, input_hash, sent_hash, hash_version,
      parameters_hash, sent_service_pid, outcome, attempts, call_number, answered_at, due_at, call_id, fingerprint,
      _synced_at, _run_id)
    SELECT ${spec.job}, ${spec.input.name}, r.source_key, r.input_hash, s.sent_hash, ${HASH_VERSION}, ${spec.parametersHash},
      s.sent_service_pid, s.answer_outcome, 1, r.call_number, r.answered_at, r.due_at, s.call_id, r.fingerprint,
      now(), ${runId}
    FROM ${STAGED} ORDER BY r.source_key COLLATE "C"
    ON CONFLICT (job, source, source_key) DO UPDATE SET input_hash = excluded.input_hash, sent_hash = excluded.sent_hash,
      hash_version = excluded.hash_version, parameters_hash = excluded.parameters_hash,
      sent_service_pid = excluded.sent_service_pid, outcome = excluded.outcome, attempts = t.attempts + 1,
      call_number = excluded.call_number, answered_at = excluded.answered_at, due_at = excluded.due_at,
      call_id = excluded.call_id, fingerprint = excluded.fingerprint, _synced_at = excluded._synced_at, _run_id = excluded._run_id
      WHERE coalesce(t.call_number, 0) <= excluded.call_number`);
}

/** Resolves the open rejects of input rows. @param keys query of their keys */
export async function resolveRejects(
  { session, names, touch }: LoadContext,
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
  context: LoadContext,
  spec: LoadSpec,
  { rejected }: StagedRows,
): Promise<void> {
  if (rejected === 0) return;
  const keys = sql`SELECT source_key FROM pg_temp.stage_row WHERE prior = 'rejected'`;
  await resolveRejects(context, spec, keys);
}
