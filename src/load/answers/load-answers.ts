import { type RawBuilder, sql } from "kysely";
import type { Cell } from "../../schemas/convert.ts";
import { enrichFields } from "../../schemas/enrich.ts";
import { resolveFields } from "../../schemas/resolve.ts";
import type { LookupAnswer, LoadSpec } from "../lookup.ts";
import { HASH_VERSION } from "../due/content.ts";
import { copyRows } from "../db/copy.ts";
import { dueAt } from "../due/due-at.ts";
import type { LoadPlace } from "./load-place.ts";
import type { Session } from "../db/session.ts";
import { quoteIdentifier, tableText, tableId } from "../db/names.ts";

const historyColumns = [
  "job",
  "source",
  "source_key",
  "valid_from",
  "valid_to",
  "is_match",
  "service_pid",
  "match_score",
];
const stateColumns = [
  "job",
  "source",
  "source_key",
  "input_hash",
  "sent_hash",
  "hash_version",
  "parameters_hash",
  "sent_service_pid",
  "outcome",
  "attempts",
  "answered_at",
  "due_at",
  "call_id",
];

/** The answer table of a job type, its columns in the order of {@link answerCells}. */
function answerTable(spec: LoadSpec): { readonly name: string; readonly fields: readonly string[] } {
  return spec.type === "enrich"
    ? { name: "enrichment", fields: Object.keys(enrichFields) }
    : { name: "resolution", fields: Object.keys(resolveFields) };
}

const answerTail = [
  "api_request_id",
  "request_completed_at",
  "first_matched_at",
  "last_matched_at",
  "last_matched_service_pid",
  "_extra",
];

/** Rows that one answer leaves for one of its input rows. */
interface AnswerRows {
  readonly answer: Cell[];
  readonly history: Cell[];
  readonly state: Cell[];
}

function rowsOf(
  spec: LoadSpec,
  answer: LookupAnswer,
  row: LookupAnswer["record"]["rows"][number],
): AnswerRows {
  const { name, fields } = answerTable(spec);
  const key = [spec.job, spec.input.name, row.sourceKey];
  const isMatch = answer.outcome === "matched";
  const matchedAt = isMatch ? answer.answeredAt : null;
  const cellOf = (field: string) => answer.cells[fields.indexOf(field)] ?? null;
  return {
    answer: [
      ...key,
      ...answer.cells,
      answer.apiRequestId,
      answer.answeredAt,
      matchedAt,
      matchedAt,
      isMatch ? answer.servicePid : null,
      answer.extra,
    ],
    history:
      name === ""
        ? []
        : [...key, answer.answeredAt, null, cellOf("is_match"), cellOf("service_pid"), cellOf("match_score")],
    state: stateCells(spec, answer, row, key),
  };
}

/** The state row of an answered input row (for validate_emails: of the address). */
export function stateCells(
  spec: LoadSpec,
  answer: LookupAnswer,
  row: LookupAnswer["record"]["rows"][number],
  key: readonly Cell[],
): Cell[] {
  const isFirst = row.priorOutcome === null;
  return [
    ...key,
    `\\x${row.inputHash}`,
    `\\x${answer.record.sentHash}`,
    String(HASH_VERSION),
    spec.parametersHash,
    answer.record.sentPid,
    answer.outcome,
    "1",
    answer.answeredAt,
    dueAt(spec, { ...answer, sentHash: answer.record.sentHash, isFirst }),
    answer.callId,
  ];
}

/** Loads the answers of a resolve or enrich job: rows never answered before by COPY, the others merged. */
export async function loadAnswers(
  place: LoadPlace,
  spec: LoadSpec,
  answers: readonly LookupAnswer[],
  mode: "insert" | "merge",
): Promise<void> {
  const fresh: AnswerRows[] = [];
  const known: AnswerRows[] = [];
  const resolvedKeys: string[] = [];
  for (const answer of answers) {
    for (const row of answer.record.rows) {
      const isNew = row.priorOutcome === null && mode === "insert";
      (isNew ? fresh : known).push(rowsOf(spec, answer, row));
      if (row.priorOutcome === "rejected") resolvedKeys.push(row.sourceKey);
    }
  }
  const { name, fields } = answerTable(spec);
  const columns = ["job", "source", "source_key", ...fields, ...answerTail];
  await insertFresh(place, name, columns, fresh);
  if (known.length > 0) await mergeKnown(place, { name, columns, spec }, known);
  await resolveRejects(place, spec, resolvedKeys);
}

async function insertFresh(
  place: LoadPlace,
  name: string,
  columns: readonly string[],
  rows: readonly AnswerRows[],
): Promise<void> {
  if (rows.length === 0) return;
  const { session, names } = place;
  const into = (table: string, own: readonly string[], cells: readonly Cell[][]) =>
    copyRows(session, tableText(names, table), own, cells);
  await into(
    name,
    columns,
    rows.map((row) => row.answer),
  );
  await into(
    "match_history",
    historyColumns,
    rows.map((row) => row.history),
  );
  await into(
    "lookup_state",
    stateColumns,
    rows.map((row) => row.state),
  );
  place.touch(name, rows.length);
  place.touch("match_history", rows.length);
}

/** COPYs rows into a temporary table with the columns of a table of ours. */
export async function stageRows(
  place: LoadPlace,
  stage: string,
  table: string,
  columns: readonly string[],
  rows: readonly Cell[][],
): Promise<void> {
  const list = columns.map(quoteIdentifier).join(", ");
  const source = tableText(place.names, table);
  await place.session.client.query(
    `CREATE TEMP TABLE ${stage} ON COMMIT DROP AS SELECT ${list} FROM ${source} LIMIT 0`,
  );
  await copyRows(place.session, `pg_temp.${stage}`, columns, rows);
}

const sameKey = (a: string, b: string): RawBuilder<unknown> =>
  sql.raw(`${a}.job = ${b}.job AND ${a}.source = ${b}.source AND ${a}.source_key = ${b}.source_key`);

/** How the times of a row's matches go on with a new answer (`excluded`): a non-match changes none of them. */
export const MATCH_TIMES = `first_matched_at = coalesce(t.first_matched_at, excluded.first_matched_at),
  last_matched_at = coalesce(excluded.last_matched_at, t.last_matched_at),
  last_matched_service_pid = CASE WHEN excluded.last_matched_at IS NULL THEN t.last_matched_service_pid
    ELSE excluded.last_matched_service_pid END`;

/** An answer older than the stored one changes nothing. */
async function dropOlder(session: Session, answerId: RawBuilder<unknown>): Promise<void> {
  await session.change(sql`
    DELETE FROM pg_temp.stage_answer AS s USING ${answerId} AS t
    WHERE ${sameKey("t", "s")} AND t.request_completed_at > s.request_completed_at`);
}

/** Closes the interval of each staged row whose match, PID or score changed, and opens the next. */
async function moveHistory(place: LoadPlace, history: RawBuilder<unknown>): Promise<void> {
  const { session, runId } = place;
  const closed = await session.change(sql`
    UPDATE ${history} AS h SET valid_to = s.request_completed_at, _synced_at = now(), _run_id = ${runId}
    FROM pg_temp.stage_answer AS s
    WHERE ${sameKey("h", "s")} AND h.valid_to IS NULL AND h.valid_from < s.request_completed_at
      AND (h.is_match, h.service_pid, h.match_score) IS DISTINCT FROM (s.is_match, s.service_pid, s.match_score)`);
  const opened = await session.change(sql`
    INSERT INTO ${history} (job, source, source_key, valid_from, valid_to, is_match, service_pid, match_score, _synced_at, _run_id)
    SELECT s.job, s.source, s.source_key, s.request_completed_at, NULL, s.is_match, s.service_pid, s.match_score, now(), ${runId}
    FROM pg_temp.stage_answer AS s
    WHERE NOT EXISTS (SELECT FROM ${history} AS h WHERE ${sameKey("h", "s")} AND h.valid_to IS NULL)
    ON CONFLICT DO NOTHING`);
  place.touch("match_history", closed + opened);
}

async function mergeKnown(
  place: LoadPlace,
  table: { readonly name: string; readonly columns: readonly string[]; readonly spec: LoadSpec },
  rows: readonly AnswerRows[],
): Promise<void> {
  const { session, names, runId } = place;
  const answerId = tableId(names, table.name);
  const history = tableId(names, "match_history");
  await stageRows(
    place,
    "stage_answer",
    table.name,
    table.columns,
    rows.map((row) => row.answer),
  );
  await stageRows(
    place,
    "stage_state",
    "lookup_state",
    stateColumns,
    rows.map((row) => row.state),
  );
  // One look at the stored answers spares most nights the statements for what rarely happens.
  const [found] = await session.rows<{ older: number; changed: number }>(sql`
    SELECT count(*) FILTER (WHERE t.request_completed_at > s.request_completed_at) AS older,
      count(*) FILTER (WHERE t.source_key IS NULL
        OR (t.is_match, t.service_pid, t.match_score) IS DISTINCT FROM (s.is_match, s.service_pid, s.match_score)) AS changed
    FROM pg_temp.stage_answer AS s LEFT JOIN ${answerId} AS t ON ${sameKey("t", "s")}`);
  if ((found?.older ?? 0) > 0) await dropOlder(session, answerId);
  if ((found?.changed ?? 0) > 0) await moveHistory(place, history);
  const list = table.columns.map(quoteIdentifier).join(", ");
  const kept = new Set([
    "job",
    "source",
    "source_key",
    "first_matched_at",
    "last_matched_at",
    "last_matched_service_pid",
  ]);
  const set = [
    ...table.columns
      .filter((c) => !kept.has(c))
      .map((c) => `${quoteIdentifier(c)} = excluded.${quoteIdentifier(c)}`),
    MATCH_TIMES,
  ].join(", ");
  const written = await session.change(sql`
    INSERT INTO ${answerId} AS t (${sql.raw(list)}, _synced_at, _run_id)
    SELECT ${sql.raw(list)}, now(), ${runId} FROM pg_temp.stage_answer ORDER BY source_key COLLATE "C"
    ON CONFLICT (job, source, source_key) DO UPDATE SET ${sql.raw(set)}, _synced_at = now(), _run_id = ${runId}`);
  place.touch(table.name, written);
  await mergeStates(place);
  await session.client.query("DROP TABLE pg_temp.stage_answer");
}

/** Merges the staged states; an older answer's state is left out. */
export async function mergeStates(place: LoadPlace): Promise<void> {
  const list = stateColumns.join(", ");
  const set = stateColumns
    .slice(3)
    .filter((c) => c !== "attempts")
    .map((c) => `${c} = excluded.${c}`)
    .join(", ");
  await place.session.change(sql`
    INSERT INTO ${tableId(place.names, "lookup_state")} AS t (${sql.raw(list)}, _synced_at, _run_id)
    SELECT ${sql.raw(list)}, now(), ${place.runId} FROM pg_temp.stage_state ORDER BY source_key COLLATE "C"
    ON CONFLICT (job, source, source_key) DO UPDATE SET ${sql.raw(set)}, attempts = t.attempts + 1, _synced_at = now(),
      _run_id = ${place.runId}
    WHERE t.answered_at IS NULL OR t.answered_at <= excluded.answered_at`);
  await place.session.client.query("DROP TABLE pg_temp.stage_state");
}

/** Stages states; see {@link mergeStates}. */
export async function stageStates(place: LoadPlace, rows: readonly Cell[][]): Promise<void> {
  await stageRows(place, "stage_state", "lookup_state", stateColumns, rows);
}

/** COPYs states of rows that have none. */
export async function insertStates(place: LoadPlace, rows: readonly Cell[][]): Promise<void> {
  const target = tableText(place.names, "lookup_state");
  await copyRows(place.session, target, stateColumns, rows);
}

/** Marks the open rejects of rows that were answered after all. */
export async function resolveRejects(
  place: LoadPlace,
  spec: LoadSpec,
  sourceKeys: readonly string[],
): Promise<void> {
  if (sourceKeys.length === 0) return;
  const resolved = await place.session.change(sql`
    UPDATE ${tableId(place.names, "reject")} SET resolved_at = now(), _synced_at = now()
    WHERE job = ${spec.job} AND source = ${spec.input.name} AND resolved_at IS NULL
      AND source_key = ANY(${[...sourceKeys].toSorted()})`);
  place.touch("reject", resolved);
}
