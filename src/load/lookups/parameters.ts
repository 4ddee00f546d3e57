import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { nextCallNumber } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { inputDefinition } from "../inputs/input.ts";
import type { RunRef } from "../runs/fence.ts";
import type { LookupSpec } from "./lookup.ts";
import { answerTables } from "./answers.ts";

/** Prefix of the kinds of answers taken over from version 2, until the first run of their job. Migration 0006 states it, too. */
const LEGACY_KIND = "v2:";

type ParametersDecision =
  | "accepted" // unchanged, or accepted earlier
  | "first" // the job reads this input for the first time
  | "undecided" // changed, and not confirmed by the user
  | "resend"
  | "keep";

export interface StoredJob {
  readonly decision: ParametersDecision;
  /** Kind under which its rows were answered, if the parameters or the mapping changed. */
  readonly formerKind: string | null;
  readonly resendBelow: number | null;
  /** True if the input was read under the same definition before. */
  readonly isSameInput: boolean;
}

/** Compares a job's parameters with those that were last accepted. Takes over the answers of version 2. */
export async function readJob(session: Session, spec: LookupSpec): Promise<StoredJob> {
  const { job, source } = spec;
  const jobs = session.query.selectFrom("state.lookup_job").where((row) => row.and({ job, source }));
  const [stored] = await session.rows(jobs.select(["kind", "mapping", "input_definition", "resend_below"]));
  if (!stored) return { decision: "first", formerKind: null, resendBelow: null, isSameInput: false };
  const found = {
    resendBelow: stored.resend_below,
    isSameInput: stored.input_definition === inputDefinition(spec.input),
  };
  const isLegacy = stored.kind === LEGACY_KIND + spec.legacyParameters;
  if (isLegacy) await takeOver(session, stored.kind, spec.kind);
  if (isLegacy || (stored.kind === spec.kind && stored.mapping === spec.mapping)) {
    return { ...found, decision: "accepted", formerKind: null };
  }
  return { ...found, decision: spec.acceptParameters ?? "undecided", formerKind: stored.kind };
}

/** Gives the answers of one kind to another; of two answers to a content, the later stays. */
async function takeOver(session: Session, from: string, to: string): Promise<void> {
  const answer = session.table("lookup_answer");
  await session.change(sql`DELETE FROM ${answer} AS n USING ${answer} AS o
    WHERE n.kind = ${to} AND o.kind = ${from} AND o.content = n.content AND n.call_number < o.call_number`);
  await session.change(sql`DELETE FROM ${answer} AS o USING ${answer} AS n
    WHERE n.kind = ${to} AND o.kind = ${from} AND o.content = n.content`);
  await session.change(
    session.query.updateTable("state.lookup_answer").set({ kind: to }).where("kind", "=", from),
  );
}

/**
 * Stores a job's parameters as accepted. Where they changed, rows without an answer under the new ones are read again, as are rows
 * that show another one; those of other shards by their next run.
 */
export async function writeJob(
  session: Session,
  spec: LookupSpec,
  formerKind: string | null,
  runId: string,
): Promise<void> {
  if (formerKind !== null) {
    const answer = session.table("lookup_answer");
    // An answer that was kept is the one that the row shows already.
    const isShown =
      formerKind === spec.kind
        ? sql`true`
        : sql`EXISTS (SELECT FROM ${answer} AS f WHERE f.kind = ${formerKind} AND f.content = a.content AND f.call_number = a.call_number)`;
    await session.change(sql`UPDATE ${session.table("lookup_row")} AS r SET fingerprint = NULL, _synced_at = now()
      WHERE r.job = ${spec.job} AND r.source = ${spec.source} AND r.fingerprint IS NOT NULL AND r.content IS NOT NULL
        AND NOT EXISTS (SELECT FROM ${answer} AS a WHERE a.kind = ${spec.kind} AND a.content = r.content AND ${isShown})`);
  }
  const ages = [spec.refreshAfterMs, spec.refreshUnmatchedAfterMs];
  const longest = ages.some((age) => age === null) ? null : Math.max(...ages.map((age) => age ?? 0));
  await session.change(sql`
    INSERT INTO ${session.table("lookup_job")} AS j
      (job, source, kind, mapping, pid_from, input_definition, refresh_after_ms, _synced_at, _run_id)
    VALUES (${spec.job}, ${spec.source}, ${spec.kind}, ${spec.mapping}, ${spec.pidFrom}, ${inputDefinition(spec.input)},
      ${longest}, now(), ${runId})
    ON CONFLICT (job, source) DO UPDATE SET kind = excluded.kind, mapping = excluded.mapping, pid_from = excluded.pid_from,
      input_definition = excluded.input_definition, refresh_after_ms = excluded.refresh_after_ms, retired_at = NULL,
      _synced_at = now(), _run_id = excluded._run_id
    WHERE (j.kind, j.mapping, j.pid_from, j.input_definition, j.refresh_after_ms, j.retired_at) IS DISTINCT FROM
      (excluded.kind, excluded.mapping, excluded.pid_from, excluded.input_definition, excluded.refresh_after_ms, NULL::timestamptz)`);
}

/**
 * `--accept-parameters keep`: gives the answers of the seen rows to their present contents. Not of rows that were missing, whose key
 * may be somebody else's by now, nor of rows whose values are known to have changed, because the mapping didn't. Reads `pg_temp.seen`, which has to hold
 * every row of the input.
 */
export async function keepAnswers(
  session: Session,
  { job, source, kind, mapping }: LookupSpec,
  formerKind: string,
): Promise<void> {
  const columns = `outcome, service_pid, sent_service_pid, match_score, is_resolvable_record, validation_errors, extra, reject,
    api_request_id, request_completed_at, answered_at, call_number, call_id, is_first`;
  await session.change(sql`
    INSERT INTO ${session.table("lookup_answer")} AS n (kind, content, ${sql.raw(columns)}, _synced_at, _run_id)
    SELECT DISTINCT ON (s.content) ${kind}, s.content, ${sql.raw(columns.replaceAll(/(\w+)/gu, "a.$1"))}, now(), a._run_id
    FROM pg_temp.seen AS s JOIN ${session.table("lookup_answer")} AS a ON a.kind = ${formerKind} AND a.content = s.prior_content
    WHERE s.class = 'parameters_changed' AND NOT s.was_missing
      AND (s.content = s.prior_content OR ${mapping} <> (SELECT mapping FROM ${session.table("lookup_job")} WHERE job = ${job} AND source = ${source}))
    ORDER BY s.content, a.call_number DESC
    ON CONFLICT (kind, content) DO UPDATE SET ${sql.raw(columns.replaceAll(/(\w+)/gu, "$1 = excluded.$1"))},
      _synced_at = now(), _run_id = excluded._run_id
    WHERE n.call_number < excluded.call_number`);
  await session.change(sql`
    UPDATE ${session.table("lookup_row")} AS r SET content = s.content, _synced_at = now() FROM pg_temp.seen AS s
    WHERE r.job = ${job} AND r.source = ${source} AND r.source_key = s.source_key AND s.class = 'parameters_changed'`);
}

/**
 * Returns the call number below which `--resend` repeats answers; null if nothing was ever answered. A resend that is
 * under way continues until every row is answered; only then does another one begin, and never under the ID of a run
 * that took part in the last one: an orchestrator retries its task under the same ID.
 * @param runId ID of the run; null for a plan
 */
export async function resendBelow(
  session: Session,
  { job, source, kind }: LookupSpec,
  runId: string | null,
): Promise<{ readonly below: number | null; readonly isNew: boolean }> {
  const jobs = session.table("lookup_job");
  // Another shard may start the same resend concurrently.
  const [before] = await session.pluck<number | null>(sql`
    SELECT resend_below FROM ${jobs} WHERE job = ${job} AND source = ${source} FOR UPDATE`);
  if (before === undefined) return { below: null, isNew: false };
  if (before !== null) {
    const [underWay] = await session.rows(sql`
      SELECT FROM ${session.table("api_call")} WHERE run_id = ${runId} AND job = ${job} AND call_number > ${before}
      UNION ALL
      SELECT FROM ${session.table("lookup_due")} AS d JOIN ${session.table("lookup_answer")} AS a ON a.kind = d.kind AND a.content = d.content
      WHERE d.kind = ${kind} AND a.call_number < ${before} LIMIT 1`);
    if (underWay) return { below: before, isNew: false };
  }
  // What another job sends again in the same run isn't sent twice.
  const ofRun = sql`(SELECT min(call_number) FROM ${session.table("api_call")}
    WHERE run_id = ${runId} AND job IN (SELECT job FROM ${jobs} WHERE kind = ${kind}))`;
  const [below = null] = await session.pluck<number>(sql`
    UPDATE ${jobs} SET resend_below = least(${nextCallNumber(session.names)}, ${ofRun}), _synced_at = now()
    WHERE job = ${job} AND source = ${source} RETURNING resend_below`);
  return { below, isNew: true };
}

/**
 * Marks the rows of jobs and inputs that are no longer configured as not present; returns these, each with the number of published
 * answers that were present. @param configured job and input of every lookup
 */
export function retireJobs(
  db: Db,
  run: RunRef,
  configured: readonly { readonly job: string; readonly source: string }[],
) {
  return db.transaction(run, async (session) => {
    const gone = await session.rows<{ job: string; source: string; kind: string }>(sql`
    UPDATE ${session.table("lookup_job")} AS j SET retired_at = now(), _synced_at = now()
    WHERE retired_at IS NULL AND NOT EXISTS (SELECT FROM json_to_recordset(${JSON.stringify(configured)}::json) AS c(job text, source text)
      WHERE c.job = j.job AND c.source = j.source)
    RETURNING job, source, kind`);
    const retired = [];
    for (const { job, source, kind } of gone) {
      const isTheirs = sql`job = ${job} AND source = ${source}`;
      await session.change(sql`UPDATE ${session.table("lookup_row")} SET fingerprint = NULL, missing_since = now(), missing_runs = 0,
      missing_run_id = ${run.runId} WHERE ${isTheirs} AND missing_since IS NULL`);
      await session.change(sql`DELETE FROM ${session.table("lookup_due")} AS d WHERE d.kind = ${kind} AND d.epoch IS NULL
      AND NOT EXISTS (SELECT FROM ${session.table("lookup_job")} AS j WHERE j.kind = d.kind AND j.retired_at IS NULL)`);
      let rows = 0;
      for (const { table } of Object.values(answerTables)) {
        rows +=
          await session.change(sql`UPDATE ${session.table(table)} SET is_present = false, _synced_at = now(), _run_id = ${run.runId}
        WHERE ${isTheirs} AND is_present`);
      }
      retired.push({ job, source, rows });
    }
    return retired;
  });
}
