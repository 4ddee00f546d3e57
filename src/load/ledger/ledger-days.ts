import type { Db } from "../db/db.ts";
import { sql } from "kysely";
import { tableId } from "../db/names.ts";

/** Records of one job on one UTC day, from the ledger and the rejects. */
export interface LedgerDay {
  /** `2026-11-21`. */
  readonly day: string;
  readonly job: string;
  /** Attempts. */
  readonly calls: number;
  /** Records in calls that were answered or may have been billed. Budgets count them. */
  readonly recordsSent: number;
  readonly recordsMatched: number;
  /** Rows rejected, before or after sending. */
  readonly recordsRejected: number;
  /** Records that may have been billed without a result: calls in flight or without an answer, and records that answers omit. */
  readonly possiblyBilled: number;
  /** Sent records that were also in an earlier call that may have been billed. */
  readonly possiblyBilledTwice: number;
}

const dayOf = (column: string) => sql`to_char(${sql.id(column)} AT TIME ZONE 'UTC', 'YYYY-MM-DD')`;

/** Records sent and rejected per job on each of the last UTC days, newest first. */
export async function readLedgerDays(db: Db, days: number): Promise<readonly LedgerDay[]> {
  const { names } = db;
  return db.transaction(async (session) => {
    const since = sql`date_trunc('day', now()) - make_interval(days => ${days - 1})`;
    return session.rows<LedgerDay>(sql`
    WITH called AS (
      SELECT ${dayOf("reserved_at")} AS day, job, count(*) AS calls, sum(records_reserved)::bigint AS sent,
        coalesce(sum(records_matched), 0)::bigint AS matched,
        coalesce(sum(records_in_doubt) FILTER (WHERE budget IS NOT NULL), 0)::bigint AS in_doubt,
        sum(records_possibly_billed_twice)::bigint AS twice
      FROM ${tableId(names, "api_call")} WHERE reserved_at >= ${since} GROUP BY 1, 2),
    rejected AS (
      SELECT ${dayOf("created_at")} AS day, job, count(*) AS rejected
      FROM ${tableId(names, "reject")} WHERE created_at >= ${since} GROUP BY 1, 2)
    SELECT day, job, coalesce(calls, 0) AS calls, coalesce(sent, 0) AS "recordsSent", coalesce(matched, 0) AS "recordsMatched",
      coalesce(rejected, 0) AS "recordsRejected", coalesce(in_doubt, 0) AS "possiblyBilled",
      coalesce(twice, 0) AS "possiblyBilledTwice"
    FROM called FULL JOIN rejected USING (day, job) ORDER BY day DESC, job`);
  });
}
