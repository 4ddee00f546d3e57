import { type RawBuilder, sql } from "kysely";
import type { Db } from "../db/db.ts";
import type { Session } from "../db/session.ts";
import type { RowKey } from "../inputs/input.ts";
import { publishAnswers, type RowLookupType, unmarkPresent } from "./answers.ts";
import { rejectRows, resolveRejects } from "./rejects.ts";
import { claimDue, forgetUnused } from "./claims.ts";
import type { LoadContext, LookupSpec } from "./lookup.ts";
import { type StoredJob, writeJob } from "./parameters.ts";
import { isRowOf, KEPT_KEY_CHARACTERS, MAX_KEY_BYTES, ownsKey } from "./content.ts";
import type { ReadingContext, SeenInput } from "./see-input.ts";
import { isBeating, type RunRef, STATEMENT_START } from "../runs/fence.ts";
import { UNUSABLE_KEYS } from "./counts.ts";
import { rejectCodes } from "../../schemas/reject-codes.ts";

/** Different runs that have to miss a row before `on_missing: erase` acts, and the least time over which they do. */
const RUNS_BEFORE_ERASURE = 3;

const TIME_BEFORE_ERASURE = "24 hours";

const isGone = sql<boolean>`r.missing_runs >= ${RUNS_BEFORE_ERASURE} AND r.missing_since <= now() - ${TIME_BEFORE_ERASURE}::interval`;

/** Counts the rows that the last reading found and missed; `known` is all that the job has read, missing ones included. */
export function countMissing(db: Db, { job, source }: LookupSpec) {
  return db.one(
    db.query
      .selectFrom("state.lookup_row")
      .select(({ fn }) => [
        fn.countAll<number>().filterWhere("missing_since", "is", null).as("inputRows"),
        fn.countAll<number>().as("known"),
        fn.count<number>("missing_since").as("missing"),
      ])
      .where("job", "=", job)
      .where("source", "=", source),
  );
}

/** Returns up to `limit` keys that readings of three different runs, this one included, missed over at least a day. */
export function readGoneRows(db: Db, run: RunRef, source: string, limit: number): Promise<readonly string[]> {
  return db.transaction(run, async (session) => {
    return session.pluck(
      session.query
        .selectFrom("state.lookup_row as r")
        .select("source_key")
        .where("job", "=", run.job)
        .where("source", "=", source)
        .where("missing_run_id", "=", run.runId)
        .where(isGone)
        .orderBy("source_key")
        .limit(limit),
    );
  });
}

/** Locks the rows to erase; returns how many of them are still missing. */
export async function lockGoneRows(session: Session, run: RunRef, rows: readonly RowKey[]): Promise<number> {
  const locked = await session.rows(sql`
    SELECT FROM ${session.table("lookup_row")} AS r
    JOIN json_to_recordset(${JSON.stringify(rows)}::json) AS g(source text, "sourceKey" text)
      ON r.source = g.source AND r.source_key = g."sourceKey"
    WHERE r.job = ${run.job} AND ${isGone} AND r.missing_run_id = ${run.runId} FOR UPDATE OF r`);
  return locked.length;
}

/**
 * Stores the rows that were read, claims what is due, rejects what can't be sent, and publishes the answers that exist already.
 * Returns the number of rows that left the input.
 */
export async function storeInput(context: ReadingContext, seen: SeenInput, run: RunRef): Promise<number> {
  const { session, spec, touch } = context;
  const load: LoadContext = { session, run, touch };
  const { type } = spec;
  // A run of the whole input has read every row, and `keep` has seen to all shards already.
  const leavesRows = spec.shard !== null && seen.job.decision === "resend";
  // Another shard may still find changed rows: without a decision, only a run of the whole input accepts new parameters.
  if (seen.job.decision !== "undecided" || spec.shard === null)
    await writeJob(session, spec, leavesRows ? seen.job.formerKind : null, run.runId);
  if (!seen.job.isSameInput) await restartMissing(context, run);
  const gone = await storeGone(context, seen, run);
  if (gone > 0) {
    const rows = sql`SELECT ${spec.job} AS job, ${spec.source} AS source, source_key FROM pg_temp.gone`;
    await resolveRejects(load, rows);
  }
  if (type === "validate_emails") {
    await storeAddressRows(context, run);
    touch("input_email", await syncInputEmails(context));
  } else {
    await storeRows(context, run, seen.job);
    await unmarkPresent(
      load,
      { ...spec, type },
      sql`SELECT source_key FROM pg_temp.gone UNION ALL SELECT source_key FROM pg_temp.seen
        WHERE is_known AND (class IN ('waiting', 'suppressed') OR class <> 'reject:duplicate_key'
          AND prior_content IS DISTINCT FROM content AND coalesce(prior = 'rejected', true))`,
    );
  }
  await claimDue(session, spec, run, seen.freshness);
  await rejectUnusable(context, load);
  if (type !== "validate_emails") await publishKnown(context, load, type, seen.job);
  await forgetUnused(session, spec);
  return gone;
}

/** Condition: the job has read the row as it is, and published what its content is answered with. */
const IS_UP_TO_DATE = sql`(is_stored AND class NOT IN ('waiting', 'suppressed') AND coalesce(prior_content = content, false))`;

/** Stores the rows that changed, with fingerprint and content: none for rows that have to be read again by the next run. */
async function storeRows(
  { session, spec }: ReadingContext,
  run: RunRef,
  { formerKind }: StoredJob,
): Promise<void> {
  // Accepting new parameters has emptied fingerprints after the rows were read.
  const isUpToDate = formerKind === null ? IS_UP_TO_DATE : sql`false`;
  // A PID may change while it is read: rows are read again if their resolve job runs at the same time.
  const isResolving =
    spec.pidFrom === null
      ? sql`false`
      : sql`EXISTS (SELECT FROM ${session.table("job_lock")} AS l WHERE job = ${spec.pidFrom} AND released_at IS NULL AND ${isBeating("l", { now: STATEMENT_START })})`;
  const isNone = sql`(class IN ('waiting', 'suppressed'))`;
  const unusable = UNUSABLE_KEYS.map((code) => `reject:${code}`);
  await session.change(sql`
    INSERT INTO ${session.table("lookup_row")} AS r (job, source, source_key, fingerprint, content, _synced_at, _run_id)
    SELECT ${spec.job}, ${spec.source}, source_key, CASE WHEN NOT (is_shared OR ${isNone} OR ${isResolving}) THEN fingerprint END,
      CASE WHEN NOT ${isNone} THEN content END, now(), ${run.runId}
    FROM pg_temp.seen
    WHERE NOT (${isUpToDate} AND NOT is_shared AND NOT ${isResolving}) AND class <> ALL(${unusable}::text[]) AND (class <> 'suppressed' OR is_known)
    ORDER BY source_key COLLATE "C"
    ON CONFLICT (job, source, source_key) DO UPDATE SET fingerprint = excluded.fingerprint, content = excluded.content,
      missing_since = NULL, missing_runs = NULL, missing_run_id = NULL, _synced_at = now(), _run_id = excluded._run_id
    WHERE (r.fingerprint, r.content, r.missing_since) IS DISTINCT FROM (excluded.fingerprint, excluded.content, NULL::timestamptz)`);
}

async function storeAddressRows({ session, spec }: ReadingContext, run: RunRef): Promise<void> {
  const tooLong = sql`EXISTS (SELECT FROM unnest(addresses) AS u(e) WHERE octet_length(e) > ${MAX_KEY_BYTES})`;
  await session.change(sql`
    INSERT INTO ${session.table("lookup_row")} AS r (job, source, source_key, fingerprint, _synced_at, _run_id)
    SELECT ${spec.job}, ${spec.source}, source_key, CASE WHEN NOT (is_shared OR ${tooLong}) THEN fingerprint END, now(), ${run.runId}
    FROM pg_temp.seen WHERE copy = 1 AND source_key IS NOT NULL AND octet_length(source_key) <= ${MAX_KEY_BYTES} AND NOT is_erased
    ORDER BY source_key COLLATE "C"
    ON CONFLICT (job, source, source_key) DO UPDATE SET fingerprint = excluded.fingerprint, missing_since = NULL, missing_runs = NULL,
      missing_run_id = NULL, _synced_at = now(), _run_id = excluded._run_id
    WHERE (r.fingerprint, r.missing_since) IS DISTINCT FROM (excluded.fingerprint, NULL::timestamptz)`);
}

/** Marks the rows that left the input as missing, and counts this run for those that stay missing. Leaves the former in `pg_temp.gone`. */
async function storeGone({ session, spec }: ReadingContext, seen: SeenInput, run: RunRef): Promise<number> {
  const row = session.table("lookup_row");
  const isTouched = seen.isWhole ? sql`true` : sql`r.source_key IN (SELECT source_key FROM pg_temp.touched)`;
  await session.change(sql`UPDATE ${row} AS r SET missing_runs = r.missing_runs + 1, missing_run_id = ${run.runId}, _synced_at = now()
    WHERE ${sql.raw(isRowOf(spec))} AND r.missing_since IS NOT NULL AND r.missing_run_id <> ${run.runId}
      AND ${spec.erasesMissing} AND NOT EXISTS (SELECT FROM pg_temp.seen AS s WHERE s.source_key = r.source_key)`);
  await session.client.query("CREATE TEMP TABLE gone (source_key text) ON COMMIT DROP");
  return session.change(sql`
    WITH missed AS (
      UPDATE ${row} AS r SET fingerprint = NULL, missing_since = now(), missing_runs = 1, missing_run_id = ${run.runId}, _synced_at = now(),
        _run_id = ${run.runId}
      WHERE ${sql.raw(isRowOf(spec))} AND r.missing_since IS NULL AND ${isTouched}
        AND NOT EXISTS (SELECT FROM pg_temp.seen AS s WHERE s.source_key = r.source_key)
      RETURNING r.source_key)
    INSERT INTO pg_temp.gone SELECT source_key FROM missed`);
}

/** Begins counting missing rows again: the definition of the input changed. */
async function restartMissing({ session, spec }: ReadingContext, run: RunRef): Promise<void> {
  await session.change(
    session.query
      .updateTable("state.lookup_row")
      .set({ missing_since: sql<string>`now()`, missing_runs: 0, missing_run_id: "" })
      .where("job", "=", spec.job)
      .where("source", "=", spec.source)
      .where("missing_since", "is not", null)
      .where("missing_run_id", "<>", run.runId),
  );
}

/** Updates `input_email` for the seen rows: writes only what differs. Keeps rows whose key left the input. */
async function syncInputEmails({ session, spec: { source } }: ReadingContext): Promise<number> {
  const table = session.table("input_email");
  const isCurrent = sql`a.copy = 1 AND NOT a.is_erased AND a.email_address IS NOT NULL`;
  const removed = await session.change(sql`
    DELETE FROM ${table} AS t WHERE t.source = ${source} AND t.source_key IN (SELECT source_key FROM pg_temp.seen)
      AND NOT EXISTS (SELECT FROM pg_temp.seen_address AS a
        WHERE a.source_key = t.source_key AND a.position = t.position AND ${isCurrent})`);
  const written = await session.change(sql`
    INSERT INTO ${table} AS t (source, source_key, position, email_address, _synced_at, _run_id)
    SELECT ${source}, source_key, position, email_address, now(), current_setting('person_etl.run_id')
    FROM pg_temp.seen_address AS a
    WHERE ${isCurrent} AND source_key IS NOT NULL AND octet_length(source_key) <= ${MAX_KEY_BYTES}
    ORDER BY source_key COLLATE "C", position
    ON CONFLICT (source, source_key, position) DO UPDATE
      SET email_address = excluded.email_address, _synced_at = excluded._synced_at, _run_id = excluded._run_id
      WHERE t.email_address <> excluded.email_address`);
  return removed + written;
}

/** Messages of rejects that are found before a call. */
const REJECT_MESSAGES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(rejectCodes).flatMap(([code, { stage, means }]) =>
    stage === "input" ? [[code, means]] : [],
  ),
);

/** Rejects the seen rows that can't be sent. An unusable content counts as answered: rejected. */
async function rejectUnusable({ session, spec }: ReadingContext, load: LoadContext): Promise<void> {
  const reject = session.table("reject");
  const { job, source, kind, type, shard } = spec;
  await session.change(
    type === "validate_emails"
      ? sql`CREATE TEMP TABLE unusable ON COMMIT DROP AS SELECT substring(class FROM 8) AS code, NULL::bytea AS content,
          left(address, ${KEPT_KEY_CHARACTERS}) AS source_key FROM pg_temp.seen_content WHERE class LIKE 'reject:%'`
      : sql`CREATE TEMP TABLE unusable ON COMMIT DROP AS SELECT substring(class FROM 8) AS code, content,
          CASE WHEN class = 'reject:key_too_long' THEN left(source_key, ${KEPT_KEY_CHARACTERS}) ELSE source_key END AS source_key
          FROM pg_temp.seen WHERE class LIKE 'reject:%'`,
  );
  const codes = [...UNUSABLE_KEYS];
  const open = sql`
    SELECT reject_id, code, source_key,
      row_number() OVER (PARTITION BY code, source_key ORDER BY created_at, reject_id) AS copy
    FROM ${reject} WHERE job = ${job} AND source = ${source} AND resolved_at IS NULL AND code = ANY(${codes})
      AND ${sql.raw(ownsKey(shard, "source_key"))}`;
  const resolved = await session.change(sql`
    UPDATE ${reject} AS t SET resolved_at = now(), _synced_at = now()
    FROM (${open}) AS o
    LEFT JOIN (SELECT code, source_key, count(*) AS copies FROM pg_temp.unusable GROUP BY code, source_key) AS f
      ON f.code = o.code AND coalesce(f.source_key, '') = coalesce(o.source_key, '')
    WHERE t.reject_id = o.reject_id AND o.copy > coalesce(f.copies, 0)`);
  load.touch("reject", resolved);
  const messages = sql`json_each_text(${JSON.stringify(REJECT_MESSAGES)}::json) AS m(code, message)`;
  await resolveRejects(
    load,
    sql`SELECT ${job} AS job, ${source} AS source, source_key FROM pg_temp.unusable WHERE code <> ALL(${codes})`,
  );
  const rejected = await session.change(sql`
    INSERT INTO ${reject}
      (reject_id, run_id, job, source, source_key, stage, code, message, details, created_at, _synced_at)
    SELECT gen_random_uuid(), ${load.run.runId}, ${job}, ${source}, f.source_key, 'input', f.code, m.message, NULL, now(), now()
    FROM (SELECT code, source_key, row_number() OVER (PARTITION BY code, source_key) AS copy FROM pg_temp.unusable) AS f
    JOIN ${messages} ON m.code = f.code
    LEFT JOIN (SELECT code, source_key, max(copy) AS copies FROM (${open}) AS o GROUP BY code, source_key) AS o
      ON o.code = f.code AND coalesce(o.source_key, '') = coalesce(f.source_key, '')
    WHERE f.copy > coalesce(o.copies, 0)`);
  load.touch("reject", rejected);
  await session.change(sql`
    INSERT INTO ${session.table("lookup_answer")} (kind, content, outcome, reject, answered_at, call_number, is_first, _synced_at, _run_id)
    SELECT DISTINCT ON (f.content) ${kind}, f.content, 'rejected',
      jsonb_build_object('stage', 'input', 'code', f.code, 'message', m.message, 'details', NULL), now(), 0, true, now(), ${load.run.runId}
    FROM pg_temp.unusable AS f JOIN ${messages} ON m.code = f.code WHERE f.code <> ALL(${codes}) ORDER BY f.content
    ON CONFLICT (kind, content) DO NOTHING`);
}

/** Publishes the answers that the contents of seen rows have already. */
async function publishKnown(
  { session, spec }: ReadingContext,
  load: LoadContext,
  type: RowLookupType,
  { formerKind }: StoredJob,
): Promise<void> {
  const isOthers = sql`content IN (SELECT content FROM pg_temp.due WHERE claim = 'other')`;
  // Under new parameters, rows that didn't change may show another answer.
  const isMeant = sql`class NOT LIKE 'reject:%' AND class NOT IN ('waiting', 'suppressed')
    AND (${formerKind !== null} OR NOT ${IS_UP_TO_DATE} OR ${isOthers})`;
  const [found] = await session.rows(
    sql`SELECT FROM pg_temp.seen WHERE (prior IS NOT NULL OR ${isOthers}) AND ${isMeant} LIMIT 1`,
  );
  if (!found) return;
  const rows = (condition: RawBuilder<unknown>) => sql`
    SELECT ${spec.job} AS job, ${spec.source} AS source, s.source_key, false AS is_missing, a.*
    FROM (SELECT source_key, content FROM pg_temp.seen WHERE ${condition}) AS s
    JOIN ${session.table("lookup_answer")} AS a ON a.kind = ${spec.kind} AND a.content = s.content`;
  // The reject of a row that returns was resolved when it left.
  const isReused = sql`(class = 'reused' OR class = 'unchanged' AND was_missing)`;
  await publishAnswers(load, type, rows(isMeant));
  await rejectRows(load, type, rows(isReused));
  await resolveRejects(
    load,
    sql`SELECT r.job, r.source, r.source_key FROM (${rows(isReused)}) AS r WHERE r.outcome <> 'rejected'`,
  );
}
