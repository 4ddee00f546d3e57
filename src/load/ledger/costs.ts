import { type RawBuilder, sql } from "kysely";
import type { Amount } from "../../money.ts";
import { billedRecords } from "../../schemas/ledger.ts";
import type { Db } from "../db/db.ts";

/** Records of one job on one UTC day, from the ledger and the rejects. */
export interface LedgerDay {
  /** `2026-11-21`. */
  readonly day: string;
  readonly job: string;
  /** Attempts. */
  readonly calls: number;
  /** Records in calls that were answered or may have been billed. Budgets count them. */
  readonly records_sent: number;
  readonly records_matched: number;
  /** Rows rejected, before or after sending. */
  readonly records_rejected: number;
  /** Records that may have been billed without a result: calls in flight or without an answer, and records that answers omit. */
  readonly possibly_billed: number;
  /** Sent records that were also in an earlier call that may have been billed. */
  readonly possibly_billed_twice: number;
}

const dayOf = (column: string) => sql`to_char(${sql.id(column)} AT TIME ZONE 'UTC', 'YYYY-MM-DD')`;

/** Records sent and rejected per job on each of the last UTC days, newest first. */
export async function readLedgerDays(db: Db, days: number): Promise<readonly LedgerDay[]> {
  const since = sql`date_trunc('day', now()) - make_interval(days => ${days - 1})`;
  return db.rows<LedgerDay>(sql`
    WITH called AS (
      SELECT ${dayOf("reserved_at")} AS day, job, count(*) AS calls, sum(records_reserved)::bigint AS sent,
        coalesce(sum(records_matched), 0)::bigint AS matched,
        coalesce(sum(records_in_doubt) FILTER (WHERE budget IS NOT NULL), 0)::bigint AS in_doubt,
        sum(records_possibly_billed_twice)::bigint AS twice
      FROM ${db.table("api_call")} WHERE reserved_at >= ${since} GROUP BY 1, 2),
    rejected AS (
      SELECT ${dayOf("created_at")} AS day, job, count(*) AS rejected
      FROM ${db.table("reject")} WHERE created_at >= ${since} GROUP BY 1, 2)
    SELECT day, job, coalesce(calls, 0) AS calls, coalesce(sent, 0) AS records_sent, coalesce(matched, 0) AS records_matched,
      coalesce(rejected, 0) AS records_rejected, coalesce(in_doubt, 0) AS possibly_billed, coalesce(twice, 0) AS possibly_billed_twice
    FROM called FULL JOIN rejected USING (day, job) ORDER BY day DESC, job`);
}

/** Billed records of one job at one price on one UTC day. */
export interface BilledDay {
  /** `2026-11-21`. */
  readonly day: string;
  readonly job: string;
  /** Type of the job, or `unlock`. */
  readonly budget: string;
  /** Price of one record when it was reserved; null without one. */
  readonly price: Amount | null;
  readonly currency: string | null;
  readonly recordsBilled: number;
  /** Further records that may have been billed. */
  readonly possiblyBilled: number;
}

/** Reads what was billed since a UTC day (`2026-11-01`). */
export async function readBilledSince(db: Db, day: string): Promise<readonly BilledDay[]> {
  return readBilled(db, sql`c.reserved_at >= ${day}::date::timestamp AT TIME ZONE 'UTC'`);
}

/** Reads what was billed under a run ID, in all shards. A job that was started again counts from its last start. */
export async function readBilledInRun(db: Db, runId: string): Promise<readonly BilledDay[]> {
  const started = sql`SELECT min(started_at) FROM ${db.table("sync_run")} AS r WHERE (r.run_id, r.job) = (c.run_id, c.job)`;
  return readBilled(db, sql`c.run_id = ${runId} AND c.reserved_at >= (${started})`);
}

/** Sums billed records by job. Jobs without billed calls are absent. */
export function billedByJob(days: readonly BilledDay[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const { job, recordsBilled } of days) sums.set(job, (sums.get(job) ?? 0) + recordsBilled);
  return sums;
}

async function readBilled(db: Db, which: RawBuilder<unknown>): Promise<readonly BilledDay[]> {
  return db.rows<BilledDay>(sql`
    SELECT to_char(reserved_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, job, budget, trim_scale(price)::text AS price, currency,
      sum(${sql.raw(billedRecords)})::bigint AS "recordsBilled", sum(records_in_doubt)::bigint AS "possiblyBilled"
    FROM ${db.table("api_call")} AS c WHERE budget IS NOT NULL AND ${which}
    GROUP BY 1, 2, 3, 4, 5 ORDER BY 1 DESC, 2, 3, 4`);
}
