import { type RawBuilder, sql } from "kysely";
import { postgresTypes } from "../db/ddl.ts";
import { quoteIdentifier } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { LookupType } from "../inputs/input.ts";
import { anyContent } from "./content.ts";
import type { AnsweredRows, LoadContext, LoadSpec, LookupAnswer } from "./lookup.ts";
import type { Cell } from "../../schemas/convert.ts";
import { enrichFields } from "../../schemas/enrich.ts";
import { tableNamed } from "../../schemas/registry.ts";
import { resolveFields } from "../../schemas/resolve.ts";
import { validateFields } from "../../schemas/validate-emails.ts";

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

const shown = (alias: string) => sql.raw(`(${SHOWN.map((name) => `${alias}.${name}`).join(", ")})`);

/** A column of the answer `s` of a matched row. */
const matched = (column: string) => sql.raw(`CASE WHEN s.outcome = 'matched' THEN s.${column} END`);

/**
 * Writes the published rows of input rows with an answer, and their match history. The only place that does.
 * @param rows with a statement `answers`: reads the answers that it returns
 */
export async function publishAnswers(
  context: LoadContext,
  type: RowLookupType,
  rows: AnsweredRows,
  write?: { readonly answers: RawBuilder<unknown>; readonly written: RawBuilder<unknown> },
): Promise<void> {
  const { session, run } = context;
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
  const { rows: changed, first } = await session.one<{ rows: number; first: number }>(sql`
    WITH ${write ? sql`answered AS (${write.answers}),` : sql``} staged AS MATERIALIZED (${rows}),
    written AS (
      INSERT INTO ${session.table(table)} AS t (job, source, source_key, ${list}, first_matched_at, last_matched_at,
        last_matched_service_pid, _synced_at, _run_id)
      SELECT job, source, source_key, ${values}, ${matched("request_completed_at")}, ${matched("request_completed_at")},
        ${matched("service_pid")}, now(), ${run.runId}
      FROM staged AS s WHERE s.outcome <> 'rejected' ORDER BY source_key COLLATE "C", source COLLATE "C", job COLLATE "C"
      ON CONFLICT (job, source, source_key) DO UPDATE SET ${sql.raw(set.join(", "))}, _synced_at = excluded._synced_at,
        _run_id = excluded._run_id
      WHERE ${shown("t")} IS DISTINCT FROM ${shown("excluded")}
      RETURNING job, source, source_key, is_match, service_pid, match_score, request_completed_at, xmax = 0 AS is_first),
    opened AS (
      INSERT INTO ${session.table("match_history")} (job, source, source_key, valid_from, is_match, service_pid, match_score,
        _synced_at, _run_id)
      SELECT job, source, source_key, request_completed_at, is_match, service_pid, match_score, now(), ${run.runId}
      FROM written WHERE is_first)
    SELECT count(*) AS rows, count(*) FILTER (WHERE is_first) AS first FROM written`);
  context.touch(table, changed);
  context.touch("match_history", first);
  if (first < changed) await moveHistory(context, type, write?.written ?? rows);
}

/** Empties the fingerprints of rows in jobs that send their PIDs, which thus read them again. @param rows name of a CTE of `job, source, source_key` */
export function readDependents(session: Session, rows: string): RawBuilder<unknown> {
  return sql`UPDATE ${session.table("lookup_row")} AS d SET fingerprint = NULL
      FROM ${sql.id(rows)} AS c JOIN ${session.table("lookup_job")} AS j ON j.pid_from = c.job AND j.source = c.source
      WHERE d.job = j.job AND d.source = j.source AND d.source_key = c.source_key`;
}

/**
 * Closes the interval of each row whose match, PID or score changed, and opens the next. A separate statement: the rows are
 * locked by now, so that the interval that another loader opened for them is visible. Jobs that send the PIDs of the rows
 * read them again.
 */
async function moveHistory(context: LoadContext, type: RowLookupType, rows: AnsweredRows): Promise<void> {
  const { session, run } = context;
  const history = session.table("match_history");
  const isOfRow = sql`job = k.job AND source = k.source AND source_key = k.source_key`;
  const last = sql`SELECT ctid, valid_from, valid_to, is_match, service_pid, match_score FROM ${history}
    WHERE ${isOfRow} ORDER BY valid_from DESC`;
  const answer = sql`SELECT is_match, service_pid, match_score, request_completed_at
    FROM ${session.table(answerTables[type].table)} WHERE ${isOfRow}`;
  // Times of the service may run backwards, intervals must not.
  const [moved = 0] = await session.pluck<number>(sql`
    WITH changed AS MATERIALIZED (
      SELECT k.job, k.source, k.source_key, a.is_match, a.service_pid, a.match_score, h.ctid AS last, h.valid_to IS NULL AS is_open,
        greatest(a.request_completed_at, h.valid_to, h.valid_from + interval '1 microsecond') AS changed_at
      FROM (${rows}) AS k ${lateralOne(answer, "a")} ${lateralOne(last, "h")}
      WHERE a.request_completed_at IS NOT NULL AND (h.valid_from IS NULL OR h.valid_to IS NOT NULL
        OR (h.is_match, h.service_pid, h.match_score) IS DISTINCT FROM (a.is_match, a.service_pid, a.match_score))),
    closed AS (
      UPDATE ${history} AS h SET valid_to = c.changed_at, _synced_at = now(), _run_id = ${run.runId}
      FROM changed AS c WHERE c.is_open AND h.ctid = c.last
      RETURNING h.source_key),
    opened AS (
      INSERT INTO ${history} (job, source, source_key, valid_from, is_match, service_pid, match_score, _synced_at, _run_id)
      SELECT job, source, source_key, changed_at, is_match, service_pid, match_score, now(), ${run.runId}
      FROM changed
      RETURNING source_key),
    dependent AS (${readDependents(session, "changed")})
    SELECT (SELECT count(*) FROM closed) + (SELECT count(*) FROM opened)`);
  context.touch("match_history", moved);
}

/** Marks the published answers of rows as outdated: their content changed, was rejected, or left the input. @param keys query of the rows' keys */
export async function unmarkPresent(
  { session, run, touch }: LoadContext,
  { job, source, type }: { readonly job: string; readonly source: string; readonly type: RowLookupType },
  keys: RawBuilder<unknown>,
): Promise<void> {
  const { table } = answerTables[type];
  const changed = await session.change(sql`
    UPDATE ${session.table(table)} SET is_present = false, _synced_at = now(), _run_id = ${run.runId}
    WHERE job = ${job} AND source = ${source} AND is_present AND source_key IN (${keys})`);
  touch(table, changed);
}

/** Columns of an answer in the order of its cells. */
const fieldsOf: Readonly<Record<LookupType, readonly string[]>> = {
  resolve: Object.keys(resolveFields),
  enrich: Object.keys(enrichFields),
  validate_emails: Object.keys(validateFields),
};

/** Types of the columns of staged answers that no published table has. */
const STAGED = {
  content: "bytea",
  outcome: "text",
  sent_service_pid: "text",
  call_id: "uuid",
  _extra: "jsonb",
};

/**
 * Answers as rows `s`, sent as one JSON array per column, or as one value if all have the same: a temporary table costs more than its
 * rows.
 */
function staged(type: LookupType, answers: readonly LookupAnswer[]): RawBuilder<unknown> {
  const table = tableNamed(type === "validate_emails" ? "email_validation" : answerTables[type].table);
  const types = new Map(table.columns.map((column) => [column.name, postgresTypes[column.type]]));
  const fields = [...fieldsOf[type], "api_request_id", "request_completed_at"];
  const typed = [
    ...Object.entries(STAGED),
    ...fields.map((name) => [name, types.get(name) ?? "text"] as const),
  ];
  const cells = answers.map(
    ({ record, outcome, callId, extra, cells, apiRequestId, completedAt }): readonly Cell[] => [
      `\\x${record.content}`,
      outcome,
      record.sentPid,
      callId,
      extra,
      ...cells,
      apiRequestId,
      completedAt,
    ],
  );
  const lists: RawBuilder<unknown>[] = [];
  const values = typed.map(([name, as], i) => {
    const column = cells.map((row) => row[i] ?? null);
    // The contents give the number of rows.
    const isSame = name !== "content" && column.every((value) => value === column[0]);
    if (!isSame) lists.push(sql`json_array_elements_text(${JSON.stringify(column)}::json)`);
    const value = isSame ? sql`${column[0]}` : sql.id(`list${lists.length}`);
    return sql`${value}::${sql.raw(as)} AS ${sql.id(name)}`;
  });
  const names = lists.map((_, i) => sql.id(`list${i + 1}`));
  return sql`(SELECT ${sql.join(values)} FROM ROWS FROM (${sql.join(lists)}) AS a(${sql.join(names)})) AS s`;
}

/** Columns that every answer has, besides its key. */
const ANSWER_COLUMNS = [
  "outcome",
  "sent_service_pid",
  "extra",
  "reject",
  "api_request_id",
  "request_completed_at",
  "answered_at",
  "call_number",
  "call_id",
];

/** A later answer replaces an earlier one, never the other way round. */
const REPLACES = sql`t.call_number <= excluded.call_number`;

/** Input rows of answers `a` of a kind. */
function rowsWith({ session }: LoadContext, kind: string, answers: RawBuilder<unknown>): AnsweredRows {
  // OFFSET 0: an index lookup for each content, whatever the statistics say.
  return sql`
    SELECT r.job, r.source, r.source_key, r.missing_since IS NOT NULL AS is_missing, a.*
    FROM ${answers} AS a
    CROSS JOIN LATERAL (SELECT job, source, source_key, missing_since FROM ${session.table("lookup_row")} AS r
      WHERE r.content = a.content OFFSET 0) AS r
    JOIN ${session.table("lookup_job")} AS j ON j.job = r.job AND j.source = r.source AND j.kind = ${kind}`;
}

/** Input rows of the contents of a kind, with their stored answers. */
export function rowsOf(context: LoadContext, kind: string, contents: readonly string[]): AnsweredRows {
  const answers = sql`(SELECT * FROM ${context.session.table("lookup_answer")}
    WHERE kind = ${kind} AND content = ${anyContent(contents)} OFFSET 0)`;
  return rowsWith(context, kind, answers);
}

export function keysOf(
  { session }: LoadContext,
  kind: string,
  contents: readonly string[],
): RawBuilder<unknown> {
  return sql`SELECT r.job, r.source, r.source_key FROM (
      SELECT job, source, source_key FROM ${session.table("lookup_row")} WHERE content = ${anyContent(contents)} OFFSET 0) AS r
    JOIN ${session.table("lookup_job")} AS j ON j.job = r.job AND j.source = r.source AND j.kind = ${kind}`;
}

/** Stores the answers of a call and publishes them for every row with their content. A later answer is kept. */
export async function writeAnswers(
  context: LoadContext,
  { type, kind }: LoadSpec,
  answers: readonly LookupAnswer[],
): Promise<void> {
  const [one] = answers;
  if (one === undefined) return;
  const { session, run } = context;
  const isAddress = type === "validate_emails";
  const fields = isAddress ? [] : fieldsOf[type].filter((name) => name !== "is_match");
  const columns = fields.map(quoteIdentifier);
  const own = columns.length === 0 ? sql`` : sql.raw(`, ${columns.join(", ")}`);
  const from = columns.length === 0 ? sql`` : sql.raw(`, ${columns.map((name) => `s.${name}`).join(", ")}`);
  const set = [...columns, ...ANSWER_COLUMNS].map((name) => `${name} = excluded.${name}`);
  // A call missing from the ledger counts as earlier than all others.
  const call = sql`LEFT JOIN (SELECT call_number, reserved_at FROM ${session.table("api_call")}
    WHERE call_id = ${one.callId}::uuid) AS c ON true`;
  const write = sql<{ content: string }>`
    INSERT INTO ${session.table("lookup_answer")} AS t (kind, content, outcome, sent_service_pid, extra, api_request_id,
      request_completed_at, answered_at, call_number, call_id, is_first, _synced_at, _run_id ${own})
    SELECT ${kind}, s.content, s.outcome, s.sent_service_pid, ${isAddress ? sql`NULL::jsonb` : sql`s._extra`}, s.api_request_id,
      s.request_completed_at, coalesce(c.reserved_at, now()), coalesce(c.call_number, 0), s.call_id, true, now(), ${run.runId} ${from}
    FROM ${staged(type, answers)} ${call} ORDER BY s.content
    ON CONFLICT (kind, content) DO UPDATE SET ${sql.raw(set.join(", "))}, is_first = t.is_first AND t.call_number = excluded.call_number,
      _synced_at = now(), _run_id = excluded._run_id WHERE ${REPLACES}
    RETURNING ${isAddress ? sql`encode(content, 'hex') AS content` : sql`t.*`}`;
  if (isAddress) {
    const written = new Set((await session.rows(write)).map(({ content }) => content));
    await writeValidations(
      context,
      answers.filter(({ record }) => written.has(record.content)),
    );
    return;
  }
  const contents = answers.map(({ record }) => record.content);
  await publishAnswers(context, type, rowsWith(context, kind, sql`answered`), {
    answers: write,
    written: keysOf(context, kind, contents),
  });
}

/** Writes the validations of addresses; keeps the previous status on a change. */
async function writeValidations(context: LoadContext, answers: readonly LookupAnswer[]): Promise<void> {
  if (answers.length === 0) return;
  const fields = [...fieldsOf.validate_emails, "api_request_id", "request_completed_at", "_extra"];
  const list = fields.map(quoteIdentifier);
  const set = list.map((column) => `${column} = excluded.${column}`);
  const isChanged = sql.raw("t.email_validation_status IS DISTINCT FROM excluded.email_validation_status");
  const written = await context.session.change(sql`
    INSERT INTO ${context.session.table("email_validation")} AS t (email_address, ${sql.raw(list.join(", "))}, _synced_at, _run_id)
    SELECT convert_from(s.content, 'UTF8'), ${sql.raw(list.map((column) => `s.${column}`).join(", "))}, now(), ${context.run.runId}
    FROM ${staged("validate_emails", answers)} ORDER BY s.content
    ON CONFLICT (email_address) DO UPDATE SET ${sql.raw(set.join(", "))},
      previous_status = CASE WHEN ${isChanged} THEN t.email_validation_status ELSE t.previous_status END,
      status_changed_at = CASE WHEN ${isChanged} THEN excluded.request_completed_at ELSE t.status_changed_at END,
      _synced_at = excluded._synced_at, _run_id = excluded._run_id`);
  context.touch("email_validation", written);
}
