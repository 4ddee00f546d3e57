import { type RawBuilder, sql } from "kysely";
import type { LookupType } from "../inputs/input.ts";
import { answerTables, keysOf, readDependents, rowsOf } from "./answers.ts";
import { contentList } from "./content.ts";
import type { LoadContext, LoadSpec, LookupReject } from "./lookup.ts";

/** Stores that contents were rejected, and rejects every row with one of them. */
export async function writeRejects(
  context: LoadContext,
  { job, type, source, kind }: LoadSpec,
  rejects: readonly LookupReject[],
): Promise<void> {
  if (rejects.length === 0) return;
  const { session, run } = context;
  const records = rejects.map(({ record, stage, code, message, details, apiRequestId }) => ({
    content: `\\x${record.content}`,
    pid: record.sentPid,
    api_request_id: apiRequestId,
    reject: { stage, code, message, details: details ?? null },
  }));
  const contents = rejects.map(({ record }) => record.content);
  // Without a call number of its own, the rejection replaces whatever was answered before.
  await session.change(sql`
    INSERT INTO ${session.table("lookup_answer")} AS t (kind, content, outcome, sent_service_pid, reject, api_request_id,
      answered_at, call_number, is_first, _synced_at, _run_id)
    SELECT ${kind}, r.content, 'rejected', r.pid, r.reject, r.api_request_id, now(),
      (SELECT coalesce(max(call_number), 0) FROM ${session.table("api_call")} WHERE run_id = ${run.runId} AND job = ${job}), true, now(), ${run.runId}
    FROM json_to_recordset(${JSON.stringify(records)}::json) AS r(content bytea, pid text, reject jsonb, api_request_id text)
    ORDER BY r.content
    ON CONFLICT (kind, content) DO UPDATE SET outcome = 'rejected', service_pid = NULL, sent_service_pid = excluded.sent_service_pid,
      match_score = NULL, is_resolvable_record = NULL, validation_errors = NULL, extra = NULL, reject = excluded.reject,
      api_request_id = excluded.api_request_id, request_completed_at = NULL, answered_at = excluded.answered_at,
      call_number = greatest(t.call_number, excluded.call_number), call_id = NULL, is_first = false, _synced_at = now(), _run_id = excluded._run_id`);
  const rows =
    type === "validate_emails"
      ? sql`SELECT ${job} AS job, ${source} AS source, convert_from(a.content, 'UTF8') AS source_key, a.*
          FROM ${session.table("lookup_answer")} AS a WHERE a.kind = ${kind}
            AND a.content IN (${contentList(contents)})`
      : rowsOf(context, kind, contents);
  await rejectRows(context, type, rows);
}

/** Code of a content whose answer is an erased person; it is in no reject, which would say whose row it is. */
const ERASED = "erased";

/** Stores that contents were answered with an erased person, so that they aren't sent again. Nothing is published. */
export async function writeErased(
  { session, run }: LoadContext,
  { kind }: LoadSpec,
  contents: readonly string[],
): Promise<void> {
  if (contents.length === 0) return;
  await session.change(sql`
    INSERT INTO ${session.table("lookup_answer")} (kind, content, outcome, reject, answered_at, call_number, is_first, _synced_at, _run_id)
    SELECT ${kind}, decode(c, 'hex'), 'rejected', jsonb_build_object('code', ${ERASED}::text), now(), 0, true, now(), ${run.runId}
    FROM unnest(${contents}::text[]) AS u(c) ORDER BY 2 ON CONFLICT (kind, content) DO NOTHING`);
}

/** Rejects rows whose content was rejected. @param rows {@link AnsweredRows}; others are left out */
export async function rejectRows(
  context: LoadContext,
  type: LookupType,
  rows: RawBuilder<unknown>,
): Promise<void> {
  const { session, run, touch } = context;
  const isRejected = sql`r.outcome = 'rejected' AND r.reject ->> 'code' <> ${ERASED}`;
  const rejected = sql`SELECT r.job, r.source, r.source_key FROM (${rows}) AS r WHERE ${isRejected}`;
  await resolveRejects(context, rejected);
  const written = await session.change(sql`
    INSERT INTO ${session.table("reject")} (reject_id, run_id, job, source, source_key, stage, code,
      message, details, api_request_id, created_at, _synced_at)
    SELECT gen_random_uuid(), ${run.runId}, r.job, r.source, r.source_key, r.reject ->> 'stage', r.reject ->> 'code',
      r.reject ->> 'message', nullif(r.reject -> 'details', 'null'), r.api_request_id, now(), now()
    FROM (${rows}) AS r WHERE ${isRejected}`);
  touch("reject", written);
  if (written === 0 || type === "validate_emails") return;
  const { table } = answerTables[type];
  const changed = await session.change(sql`
    UPDATE ${session.table(table)} AS t SET is_present = false, _synced_at = now(), _run_id = ${run.runId}
    FROM (${rejected}) AS r WHERE (t.job, t.source, t.source_key) = (r.job, r.source, r.source_key) AND t.is_present`);
  touch(table, changed);
}

/** Resolves the open rejects of input rows; jobs that sent these without a PID read them again. @param keys query of `job, source, source_key` */
export async function resolveRejects(
  { session, touch }: LoadContext,
  keys: RawBuilder<unknown>,
): Promise<void> {
  const [resolved = 0] = await session.pluck<number>(sql`
    WITH resolved AS (
      UPDATE ${session.table("reject")} AS t SET resolved_at = now(), _synced_at = now() FROM (${keys}) AS k
      WHERE (t.job, t.source, t.source_key) = (k.job, k.source, k.source_key) AND t.resolved_at IS NULL
      RETURNING t.job, t.source, t.source_key),
    dependent AS (${readDependents(session, "resolved")})
    SELECT count(*) FROM resolved`);
  touch("reject", resolved);
}

/** Resolves the open rejects of all rows that have one of these contents. */
export async function resolveAnswered(
  context: LoadContext,
  { job, type, source, kind }: LoadSpec,
  contents: readonly string[],
): Promise<void> {
  const rows =
    type === "validate_emails"
      ? sql`SELECT ${job} AS job, ${source} AS source, convert_from(decode(c, 'hex'), 'UTF8') AS source_key FROM unnest(${contents}::text[]) AS u(c)`
      : keysOf(context, kind, contents);
  await resolveRejects(context, rows);
}
