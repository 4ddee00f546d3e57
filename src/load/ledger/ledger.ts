import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { nextCallNumber } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { releaseReservations } from "./reserve.ts";
import type { CallOwner, RunRef } from "../runs/fence.ts";
import type { Attempt } from "../../schemas/ledger.ts";
import type { Drift } from "../../schemas/convert.ts";
import { counterNames, type RunCounter } from "../../schemas/ops.ts";

export type CounterDelta = Partial<Record<RunCounter, number>>;

export function sumOf(deltas: readonly CounterDelta[]): CounterDelta {
  const sum: Record<string, number> = {};
  for (const delta of deltas) {
    for (const [name, value] of Object.entries(delta)) sum[name] = (sum[name] ?? 0) + value;
  }
  return sum;
}

export function countAttempts(ledger: readonly Attempt[]): CounterDelta {
  return {
    requests: ledger.length,
    retries: ledger.filter(({ attempt }) => attempt > 1).length,
    possibly_billed_twice: ledger.reduce((sum, entry) => sum + entry.possiblyBilledTwice, 0),
  };
}

/** Records the outcome of attempts without rows. Counters without an attempt are added at most once. */
export async function recordAttempts(
  db: Db,
  run: RunRef,
  entries: readonly Attempt[],
  counters: CounterDelta,
): Promise<void> {
  await db.transaction(run, async (session) => {
    const recorded = await recordOutcomes(session, run, entries);
    // Already recorded: the reply to that COMMIT was lost.
    if (entries.length > 0 && recorded.size === 0) return;
    await releaseReservations(session, run, entries);
    await addCounters(session, run, counters);
  });
}

/** Records free calls made outside of job runs. */
export async function recordCalls(db: Db, owner: CallOwner, entries: readonly Attempt[]): Promise<void> {
  await db.transaction(async (session) => {
    await recordOutcomes(session, owner, entries);
  });
}

/**
 * Counts a job's records that may have been billed without a result and were not sent again since. Shards share them
 * out evenly: the first records that each sends count as possibly billed twice.
 */
export async function countInDoubt(
  session: Session,
  { job, shard }: Pick<RunRef, "job" | "shard">,
): Promise<number> {
  const [records = 0] = await session.pluck<number>(sql`
    SELECT ceil(greatest(0, coalesce(sum(records_in_doubt - records_possibly_billed_twice), 0))
      / split_part(${shard}, '/', 2)::numeric)::bigint AS records
    FROM ${session.table("api_call")}
    WHERE job = ${job} AND (records_in_doubt > 0 OR records_possibly_billed_twice > 0)`);
  return records;
}

/**
 * Records outcomes of attempts in the ledger, whether the call was reserved or not. Returns the IDs of calls whose
 * outcome was unknown before. Records of an ambiguous call, and those that an answer omits, stay in doubt (`records_in_doubt`).
 */
export async function recordOutcomes(
  session: Session,
  run: CallOwner,
  entries: readonly Attempt[],
): Promise<ReadonlySet<string>> {
  if (entries.length === 0) return new Set();
  const recorded = await session.pluck<string>(sql`
    INSERT INTO ${session.table("api_call")} AS t (call_id, run_id, job, call_number, endpoint, api_request_id, started_at,
        request_completed_at, milliseconds, http_status, attempt, records_sent, records_matched, response_bytes,
        possibly_billed, records_reserved, records_in_doubt, records_possibly_billed_twice, is_sent, error_code, error_details,
        settled_at, _synced_at)
      SELECT "callId", ${run.runId}, ${run.job}, ${nextCallNumber(session.names)}, endpoint, "apiRequestId", "startedAt", "requestCompletedAt", milliseconds,
        "httpStatus", attempt, "recordsSent", "recordsMatched", "responseBytes", "possiblyBilled", 0,
        CASE WHEN "possiblyBilled" THEN "recordsSent" ELSE coalesce("recordsLeftOut", 0) END, "possiblyBilledTwice", "isSent", "errorCode",
        "errorDetails", CASE WHEN "isOpen" THEN NULL ELSE now() END, now()
      FROM json_to_recordset(${JSON.stringify(entries)}::json) AS e("callId" uuid, endpoint text, "apiRequestId" text,
        "startedAt" timestamptz, "requestCompletedAt" timestamptz, milliseconds bigint, "httpStatus" bigint, attempt int,
        "recordsSent" bigint, "recordsMatched" bigint, "responseBytes" bigint, "possiblyBilled" boolean,
        "possiblyBilledTwice" bigint, "recordsLeftOut" bigint, "isSent" boolean, "isOpen" boolean, "errorCode" text, "errorDetails" jsonb)
      ON CONFLICT (call_id) DO UPDATE SET api_request_id = excluded.api_request_id, started_at = excluded.started_at,
        request_completed_at = excluded.request_completed_at, milliseconds = excluded.milliseconds,
        http_status = excluded.http_status, attempt = excluded.attempt, records_sent = excluded.records_sent,
        records_matched = excluded.records_matched, response_bytes = excluded.response_bytes,
        possibly_billed = excluded.possibly_billed, records_in_doubt = excluded.records_in_doubt,
        records_possibly_billed_twice = excluded.records_possibly_billed_twice, is_sent = excluded.is_sent, error_code = excluded.error_code,
        error_details = excluded.error_details, settled_at = excluded.settled_at,
        _synced_at = excluded._synced_at
        WHERE t.settled_at IS NULL AND (t.is_sent IS NULL OR excluded.settled_at IS NOT NULL)
      RETURNING call_id::text`);
  return new Set(recorded);
}

/** Adds to drift counts, in key order, so that parallel loaders can't deadlock. */
export async function upsertDrift(session: Session, run: RunRef, drift: readonly Drift[]): Promise<void> {
  if (drift.length === 0) return;
  await session.change(sql`
    INSERT INTO ${session.table("schema_drift")} AS t
      (endpoint, path, kind, observed_type, occurrences, first_seen_at, last_seen_at, _synced_at, _run_id)
    SELECT endpoint, left(path, 500), kind, (array_agg("observedType"))[1], sum(occurrences), now(), now(), now(), ${run.runId}
    FROM json_to_recordset(${JSON.stringify(drift)}::json)
      AS d(endpoint text, path text, kind text, "observedType" text, occurrences bigint)
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (endpoint, path, kind) DO UPDATE SET observed_type = excluded.observed_type,
      occurrences = t.occurrences + excluded.occurrences, last_seen_at = now(), _synced_at = now(), _run_id = excluded._run_id`);
}

/** Records the tables that a commit changed, for `table_freshness`. */
export async function touchTables(session: Session, run: RunRef, tables: readonly string[]): Promise<void> {
  if (tables.length === 0) return;
  await session.change(sql`
    INSERT INTO ${session.table("table_load")} (table_name, job, last_success_at, last_changed_at, _synced_at, _run_id)
    SELECT name, ${run.job}, NULL, now(), now(), ${run.runId} FROM unnest(${[...tables].toSorted()}::text[]) AS u(name)
    ON CONFLICT (table_name, job) DO UPDATE SET last_changed_at = now(), _synced_at = now(), _run_id = excluded._run_id`);
}

/**
 * Adds to the run's counters. Must be the last statement before the fence, because parallel loaders wait for its row
 * lock. Returns the row's `_synced_at` as text; null without a row.
 */
export async function addCounters(
  session: Session,
  run: RunRef,
  delta: CounterDelta,
): Promise<string | null> {
  const sum = (name: RunCounter) => sql`${sql.id(name)} + ${delta[name] ?? 0}`;
  const set = counterNames
    .filter((name) => (delta[name] ?? 0) !== 0)
    .map((name) => sql`${sql.id(name)} = ${sum(name)}`);
  const [syncedAt = null] = await session.pluck<string>(sql`
    UPDATE ${session.table("sync_run")}
    SET ${sql.join([...set, sql`_synced_at = clock_timestamp()`])}
    WHERE run_id = ${run.runId} AND job = ${run.job} AND shard = ${run.shard}
    RETURNING _synced_at::text`);
  return syncedAt;
}

/** True if a call of an earlier run received the same response: it answers nothing new. The ID alone may be the same for all calls. */
export async function isRepeatedResponse(
  db: Db,
  { runId }: Pick<RunRef, "runId">,
  { apiRequestId, requestCompletedAt }: Pick<Attempt, "apiRequestId" | "requestCompletedAt">,
): Promise<boolean> {
  if (apiRequestId === null || requestCompletedAt === null) return false;
  const found = await db.rows(
    db.query
      .selectFrom("ops.api_call")
      .select("call_id")
      .where("api_request_id", "=", apiRequestId)
      .where("request_completed_at", "=", requestCompletedAt)
      .where("run_id", "<>", runId)
      .limit(1),
  );
  return found.length > 0;
}

/** Days after which a link that cut answers is tried with full batches again. */
const CUT_DAYS = 7;

/**
 * Returns the records of the smallest recent call whose answer broke off; null for none. Leaves out those as large as
 * one that came through later: accidents of the network.
 */
export async function readCutAt(db: Db, endpoint: string): Promise<number | null> {
  const [records = null] = await db.pluck<number | null>(sql`
    SELECT min(records_sent) FILTER (WHERE is_cut AND (response_bytes > passed_bytes OR records_sent > passed_records)) AS records
    FROM (
      SELECT records_sent, response_bytes, http_status = 200 AND possibly_billed AS is_cut,
        coalesce(max(response_bytes) FILTER (WHERE records_matched IS NOT NULL) OVER later, 0) AS passed_bytes,
        coalesce(max(records_sent) FILTER (WHERE records_matched IS NOT NULL) OVER later, 0) AS passed_records
      FROM ${db.table("api_call")}
      WHERE endpoint = ${endpoint} AND reserved_at > now() - make_interval(days => ${CUT_DAYS})
      WINDOW later AS (ORDER BY started_at DESC)) AS c`);
  return records;
}
