import { type RawBuilder, sql } from "kysely";
import type { Cell } from "../../schemas/convert.ts";
import { tableNamed } from "../../schemas/registry.ts";
import { postgresTypes } from "../db/ddl.ts";
import { tableId } from "../db/names.ts";
import { HASH_VERSION } from "../due/content.ts";
import { dueAt } from "../due/due-at.ts";
import type { LoadContext, LookupContext } from "./load-context.ts";
import type { LookupAnswer } from "./answer.ts";
import type { LoadSpec } from "../due/lookup-spec.ts";

/** Table of a job type's answers. */
export interface AnswerTable {
  readonly table: string;
  /** Columns of an answer, without those of the input row and the bookkeeping ones. */
  readonly columns: readonly string[];
  /** Cells in the order of the columns. */
  readonly cellsOf: (answer: LookupAnswer) => readonly Cell[];
}

/** Input rows with the answer of each. */
export interface AnsweredRows {
  /** Query of the rows: columns of `lookup_state`, those of the answer, and the outcome before the selection (`prior`). */
  readonly query: RawBuilder<unknown>;
  /** Query of their keys. */
  readonly keys: RawBuilder<unknown>;
  /** When the answer of a row `excluded` that has a state expires. */
  readonly nextDueAt: RawBuilder<unknown>;
  /** Condition for a state `t` to be replaced by `excluded`. */
  readonly isReplaced: RawBuilder<unknown>;
}

/**
 * Joins at most one row, by an index lookup for each row. Without statistics, as on a first night, Postgres
 * would read the whole table for each commit instead.
 */
export function lookUp(query: RawBuilder<unknown>, alias: string): RawBuilder<unknown> {
  return sql`LEFT JOIN LATERAL (${query} LIMIT 1) AS ${sql.id(alias)} ON true`;
}

/** Columns of an answer besides those of its table, with their types. */
const stateColumns = {
  record_id: "bigint",
  outcome: "text",
  sent_hash: "bytea",
  sent_service_pid: "text",
  call_id: "uuid",
};

function stateCells({ record, outcome, callId }: LookupAnswer): readonly Cell[] {
  return [record.recordId, outcome, `\\x${record.sentHash}`, record.sentPid, callId];
}

/** Answers as rows `s`, sent as one JSON array per column: a temporary table costs more than its rows. */
function answersAsRows(
  { table, columns, cellsOf }: AnswerTable,
  answers: readonly LookupAnswer[],
): RawBuilder<unknown> {
  const types = new Map(tableNamed(table).columns.map(({ name, type }) => [name, postgresTypes[type]]));
  const typed = [
    ...Object.entries(stateColumns),
    ...columns.map((name) => [name, types.get(name) ?? "text"] as const),
  ];
  const cells = answers.map((answer) => [...stateCells(answer), ...cellsOf(answer)]);
  const lists = typed.map((_, i) => {
    const list = JSON.stringify(cells.map((row) => row[i] ?? null));
    return sql`json_array_elements_text(${list}::json)`;
  });
  const names = typed.map(([name]) => sql.id(name));
  const casts = typed.map(([name, type]) => sql`${sql.id(name)}::${sql.raw(type)}`);
  return sql`(SELECT ${sql.join(casts)} FROM ROWS FROM (${sql.join(lists)}) AS a(${sql.join(names)})) AS s`;
}

/**
 * Input rows of answers. Rows answered by a later call stay; a call missing from the ledger counts as earlier than
 * all others.
 */
export function rowsOfAnswers(
  { names, rows }: LookupContext,
  spec: LoadSpec,
  answers: readonly LookupAnswer[],
  target: AnswerTable,
): AnsweredRows {
  const records = [...new Set(answers.map(({ record }) => record.recordId))];
  const calls = [...new Set(answers.map(({ callId }) => callId))];
  const columns = [...Object.keys(stateColumns), ...target.columns].map((name) => sql`s.${sql.id(name)}`);
  const dueAtFirst = dueAt(spec, {
    answeredAt: "coalesce(c.reserved_at, now())",
    outcome: "s.outcome",
    sentHash: "s.sent_hash",
    isFirst: "true",
  });
  return {
    query: sql`
      SELECT w.source_key, w.input_hash, w.fingerprint, w.prior, coalesce(c.call_number, 0) AS call_number,
        coalesce(c.reserved_at, now()) AS answered_at, ${dueAtFirst} AS due_at, ${sql.join(columns)}
      FROM ${answersAsRows(target, answers)} JOIN ${rows} AS w ON w.ord = s.record_id
      LEFT JOIN (SELECT call_id, call_number, reserved_at FROM ${tableId(names, "api_call")}
        WHERE call_id = ANY(${calls}::uuid[])) AS c ON c.call_id = s.call_id
      WHERE w.source_key IS NOT NULL`,
    keys: sql`SELECT source_key FROM ${rows} WHERE ord = ANY(${records}::bigint[]) AND source_key IS NOT NULL`,
    nextDueAt: dueAt(spec, {
      answeredAt: "excluded.answered_at",
      outcome: "excluded.outcome",
      sentHash: "excluded.sent_hash",
      isFirst: "false",
    }),
    isReplaced: sql`coalesce(t.call_number, 0) <= excluded.call_number`,
  };
}

/**
 * CTEs `staged`, the rows, and `claimed`, the keys of those that this answer changes. Claiming writes their states, in the order of
 * the keys, and keeps them locked, so that loaders of the same rows wait for each other.
 */
export function claimRows(
  { names, runId }: LoadContext,
  spec: LoadSpec,
  { query, nextDueAt, isReplaced }: AnsweredRows,
): RawBuilder<unknown> {
  return sql`staged AS MATERIALIZED (${query}),
    claimed AS (
    INSERT INTO ${tableId(names, "lookup_state")} AS t (job, source, source_key, input_hash, sent_hash, hash_version,
      parameters_hash, sent_service_pid, outcome, attempts, call_number, answered_at, due_at, call_id, fingerprint,
      _synced_at, _run_id)
    SELECT ${spec.job}, ${spec.input.name}, source_key, input_hash, sent_hash, ${HASH_VERSION}, ${spec.parametersHash},
      sent_service_pid, outcome, 1, call_number, answered_at, due_at, call_id, fingerprint, now(), ${runId}
    FROM staged ORDER BY source_key COLLATE "C"
    ON CONFLICT (job, source, source_key) DO UPDATE SET input_hash = excluded.input_hash, sent_hash = excluded.sent_hash,
      hash_version = excluded.hash_version, parameters_hash = excluded.parameters_hash,
      sent_service_pid = excluded.sent_service_pid, outcome = excluded.outcome, attempts = t.attempts + 1,
      call_number = greatest(t.call_number, excluded.call_number), answered_at = excluded.answered_at, due_at = ${nextDueAt},
      call_id = excluded.call_id, fingerprint = excluded.fingerprint, _synced_at = excluded._synced_at, _run_id = excluded._run_id
      WHERE ${isReplaced}
    RETURNING source_key)`;
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

/** Resolves the open rejects of rows, except those rejected after the answer. */
export async function resolveAnswered(
  context: LoadContext,
  spec: LoadSpec,
  { keys }: AnsweredRows,
): Promise<void> {
  // OFFSET 0: once for all rejects, not for each.
  await resolveRejects(
    context,
    spec,
    sql`SELECT k.source_key FROM (${keys}) AS k ${lookUp(
      sql`SELECT outcome FROM ${tableId(context.names, "lookup_state")}
        WHERE job = ${spec.job} AND source = ${spec.input.name} AND source_key = k.source_key`,
      "t",
    )} WHERE t.outcome <> 'rejected' OFFSET 0`,
  );
}
