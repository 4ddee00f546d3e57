import { type RawBuilder, sql } from "kysely";
import { answerTables, writeAnswers } from "../answers/load-answers.ts";
import type { LoadContext } from "../answers/load-context.ts";
import { quoteIdentifier, type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { raw } from "../inputs/input.ts";
import type { ReusedCount } from "./lookup-counts.ts";
import type { LookupSpec } from "./lookup-spec.ts";

/**
 * Due rows whose content already has a fresh answer from another row of the job, under the same parameters.
 * @param resend number below which calls are repeated, null for none
 */
function reusable(names: SchemaNames, spec: LookupSpec, resend: number | null): RawBuilder<unknown> {
  return sql`
    SELECT d.source_key, d.prior, d.input_hash, d.fingerprint, f.source_key AS from_key, f.outcome
    FROM pg_temp.due_row AS d
    JOIN (
      SELECT DISTINCT ON (sent_hash) sent_hash, source_key, outcome FROM ${tableId(names, "lookup_state")} AS s
      WHERE s.job = ${spec.job} AND s.source = ${spec.input.name} AND s.parameters_hash = ${spec.parametersHash}
        AND s.outcome <> 'rejected' AND (s.due_at IS NULL OR s.due_at > now()) AND s.sent_hash IS NOT NULL
        AND coalesce(s.call_number, 0) >= coalesce(${resend}::bigint, 0)
        AND s.sent_hash IN (SELECT sent_hash FROM pg_temp.due_row)
      ORDER BY sent_hash, call_number DESC NULLS LAST, source_key) AS f ON f.sent_hash = d.sent_hash
    WHERE d.class IN ('never_answered', 'content_changed', 'pid_changed')`;
}

/** Removes rows from `due_row` that need no call because equal content has a fresh answer. */
export async function takeReusable(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
  resend: number | null,
): Promise<readonly ReusedCount[]> {
  if (spec.type === "validate_emails") return [];
  await session.change(sql`CREATE TEMP TABLE reused (source_key text, prior text, input_hash bytea, fingerprint bytea,
    from_key text, outcome text) ON COMMIT DROP`);
  await session.change(sql`INSERT INTO pg_temp.reused ${reusable(names, spec, resend)}`);
  await session.change(sql`DELETE FROM pg_temp.due_row AS d USING pg_temp.reused AS r
    WHERE d.source_key = r.source_key AND d.class NOT LIKE 'reject:%'`);
  return session.rows<ReusedCount>(sql`
    SELECT prior, outcome, count(*) AS rows FROM pg_temp.reused GROUP BY prior, outcome`);
}

/** Copies the fresh answer to those rows, with its original times and request ID. */
export async function reuseAnswers(
  context: LoadContext,
  spec: LookupSpec,
  resend: number | null,
): Promise<readonly ReusedCount[]> {
  const { session, names } = context;
  const counts = await takeReusable(session, names, spec, resend);
  const { type } = spec;
  if (counts.length === 0 || type === "validate_emails") return counts;
  const { table, columns } = answerTables[type];
  const ofSource = sql`f.job = ${spec.job} AND f.source = ${spec.input.name}`;
  await writeAnswers(
    context,
    { ...spec, type },
    {
      query: sql`
        SELECT r.source_key, r.input_hash, r.fingerprint, r.prior, f.call_number, f.answered_at, f.due_at, f.outcome, f.sent_hash,
          f.sent_service_pid, f.call_id, ${raw(columns.map((name) => `a.${quoteIdentifier(name)}`).join(", "))}
        FROM pg_temp.reused AS r
        JOIN ${tableId(names, "lookup_state")} AS f ON ${ofSource} AND f.source_key = r.from_key
        JOIN ${tableId(names, table)} AS a ON a.job = f.job AND a.source = f.source AND a.source_key = f.source_key`,
      keys: sql`SELECT source_key FROM pg_temp.reused`,
      nextDueAt: sql`excluded.due_at`,
      // Also the state of a row whose earlier content was answered by a later call.
      isReplaced: sql`true`,
    },
  );
  return counts;
}
