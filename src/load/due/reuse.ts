import { type RawBuilder, sql } from "kysely";
import { tableNamed } from "../../schemas/registry.ts";
import type { ReusedCount } from "./lookup-counts.ts";
import type { LookupSpec, RunRef } from "../lookup.ts";
import { HASH_VERSION } from "./content.ts";
import { MATCH_TIMES } from "../answers/load-answers.ts";
import { raw } from "../inputs/input.ts";
import { quoteIdentifier, type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";

/** Due rows whose content was answered for another row of the job, under the same parameters, and is still fresh. */
function reusable(names: SchemaNames, spec: LookupSpec): RawBuilder<unknown> {
  return sql`
    SELECT d.source_key, d.prior, d.input_hash, d.sent_hash, d.pid, d.occurrences, f.source_key AS from_key, f.outcome
    FROM pg_temp.due_row AS d
    JOIN (
      SELECT DISTINCT ON (sent_hash) sent_hash, source_key, outcome FROM ${tableId(names, "lookup_state")} AS s
      WHERE s.job = ${spec.job} AND s.source = ${spec.input.name} AND s.parameters_hash = ${spec.parametersHash}
        AND s.outcome <> 'rejected' AND (s.due_at IS NULL OR s.due_at > now()) AND s.sent_hash IS NOT NULL
      ORDER BY sent_hash, answered_at DESC, source_key) AS f ON f.sent_hash = d.sent_hash
    WHERE d.class IN ('never_answered', 'content_changed', 'pid_changed')`;
}

/** Which due rows need no call because equal content has a fresh answer; takes them out of `due_row`. */
export async function takeReusable(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
): Promise<readonly ReusedCount[]> {
  if (spec.resend || spec.type === "validate_emails") return [];
  await session.change(sql`CREATE TEMP TABLE reused (source_key text, prior text, input_hash bytea, sent_hash bytea,
    pid text, occurrences bigint, from_key text, outcome text) ON COMMIT DROP`);
  await session.change(sql`INSERT INTO pg_temp.reused ${reusable(names, spec)}`);
  await session.change(sql`DELETE FROM pg_temp.due_row AS d USING pg_temp.reused AS r
    WHERE d.source_key = r.source_key AND d.class NOT LIKE 'reject:%'`);
  return session.rows<ReusedCount>(sql`
    SELECT prior, outcome, count(*) AS rows FROM pg_temp.reused GROUP BY prior, outcome`);
}

/** Columns that a row has of its own, whatever it takes over. */
const NOT_COPIED = [
  "job",
  "source",
  "source_key",
  "first_matched_at",
  "last_matched_at",
  "last_matched_service_pid",
  "_synced_at",
  "_run_id",
];

/** A value for a row that takes over a match. */
function ifMatched(expression: string): RawBuilder<unknown> {
  return raw(`CASE WHEN r.outcome = 'matched' THEN ${expression} END`);
}

/** Gives those rows the fresh answer, with its own times and request id. */
export async function reuseAnswers(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
  run: RunRef,
  touch: (table: string, rows: number) => void,
): Promise<readonly ReusedCount[]> {
  const counts = await takeReusable(session, names, spec);
  if (counts.length === 0) return counts;
  const answer = tableNamed(spec.type === "enrich" ? "enrichment" : "resolution");
  const answerId = tableId(names, answer.name);
  const copied = answer.columns.map((c) => c.name).filter((name) => !NOT_COPIED.includes(name));
  const list = copied.map(quoteIdentifier).join(", ");
  const set = copied.map((name) => `${quoteIdentifier(name)} = excluded.${quoteIdentifier(name)}`).join(", ");
  const history = tableId(names, "match_history");
  // The row's own last answer is `o`: what it takes over begins after that, however old it is.
  const taken = sql`pg_temp.reused AS r
    JOIN ${answerId} AS a ON a.job = ${spec.job} AND a.source = ${spec.input.name} AND a.source_key = r.from_key
    LEFT JOIN ${answerId} AS o ON o.job = a.job AND o.source = a.source AND o.source_key = r.source_key`;
  const takenAt = sql`greatest(a.request_completed_at, o.request_completed_at + interval '1 microsecond')`;
  const closed = await session.change(sql`
    UPDATE ${history} AS h SET valid_to = ${takenAt}, _synced_at = now(), _run_id = ${run.runId}
    FROM ${taken}
    WHERE h.job = ${spec.job} AND h.source = ${spec.input.name} AND h.source_key = r.source_key AND h.valid_to IS NULL
      AND (h.is_match, h.service_pid, h.match_score) IS DISTINCT FROM (a.is_match, a.service_pid, a.match_score)`);
  const opened = await session.change(sql`
    INSERT INTO ${history} (job, source, source_key, valid_from, valid_to, is_match, service_pid, match_score, _synced_at, _run_id)
    SELECT a.job, a.source, r.source_key, ${takenAt}, NULL, a.is_match, a.service_pid, a.match_score, now(), ${run.runId}
    FROM ${taken}
    WHERE NOT EXISTS (SELECT FROM ${history} AS h WHERE h.job = ${spec.job} AND h.source = ${spec.input.name}
      AND h.source_key = r.source_key AND h.valid_to IS NULL)
    ON CONFLICT DO NOTHING`);
  touch("match_history", closed + opened);
  const answered = await session.change(sql`
    INSERT INTO ${answerId} AS t (job, source, source_key, ${raw(list)}, first_matched_at, last_matched_at,
      last_matched_service_pid, _synced_at, _run_id)
    SELECT a.job, a.source, r.source_key, ${raw(copied.map((name) => `a.${quoteIdentifier(name)}`).join(", "))},
      ${ifMatched("a.request_completed_at")}, ${ifMatched("a.request_completed_at")}, ${ifMatched("a.last_matched_service_pid")},
      now(), ${run.runId}
    FROM ${taken}
    ON CONFLICT (job, source, source_key) DO UPDATE SET ${raw(set)}, ${raw(MATCH_TIMES)},
      _synced_at = excluded._synced_at, _run_id = excluded._run_id`);
  touch(answer.name, answered);
  await session.change(sql`
    UPDATE ${tableId(names, "reject")} AS t SET resolved_at = now(), _synced_at = now()
    FROM pg_temp.reused AS r WHERE r.prior = 'rejected' AND t.job = ${spec.job} AND t.source = ${spec.input.name}
      AND t.source_key = r.source_key AND t.resolved_at IS NULL`);
  const state = tableId(names, "lookup_state");
  await session.change(sql`
    INSERT INTO ${state} AS t (job, source, source_key, input_hash, sent_hash, hash_version, parameters_hash,
      sent_service_pid, outcome, attempts, answered_at, due_at, call_id, _synced_at, _run_id)
    SELECT f.job, f.source, r.source_key, r.input_hash, r.sent_hash, ${HASH_VERSION}, f.parameters_hash, r.pid, f.outcome,
      f.attempts, f.answered_at, f.due_at, f.call_id, now(), ${run.runId}
    FROM pg_temp.reused AS r JOIN ${state} AS f
      ON f.job = ${spec.job} AND f.source = ${spec.input.name} AND f.source_key = r.from_key
    ON CONFLICT (job, source, source_key) DO UPDATE SET input_hash = excluded.input_hash,
      sent_hash = excluded.sent_hash, hash_version = excluded.hash_version, parameters_hash = excluded.parameters_hash,
      sent_service_pid = excluded.sent_service_pid, outcome = excluded.outcome, attempts = excluded.attempts,
      answered_at = excluded.answered_at, due_at = excluded.due_at, call_id = excluded.call_id,
      _synced_at = excluded._synced_at, _run_id = excluded._run_id`);
  return counts;
}
