import { type RawBuilder, sql } from "kysely";
import type { Amount } from "../../money.ts";
import { billedRecords } from "../../schemas/billing.ts";
import type { Db } from "../db/db.ts";
import { tableId } from "../db/names.ts";

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
  const started = sql`SELECT min(started_at) FROM ${tableId(db.names, "sync_run")} AS r WHERE (r.run_id, r.job) = (c.run_id, c.job)`;
  return readBilled(db, sql`c.run_id = ${runId} AND c.reserved_at >= (${started})`);
}

/** Sums billed records by job. Jobs without billed calls are absent. */
export function billedByJob(days: readonly BilledDay[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const { job, recordsBilled } of days) sums.set(job, (sums.get(job) ?? 0) + recordsBilled);
  return sums;
}

async function readBilled(db: Db, which: RawBuilder<unknown>): Promise<readonly BilledDay[]> {
  return db.transaction(async (session) => {
    return session.rows<BilledDay>(sql`
    SELECT to_char(reserved_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, job, budget, trim_scale(price)::text AS price, currency,
      sum(${sql.raw(billedRecords)})::bigint AS "recordsBilled", sum(records_in_doubt)::bigint AS "possiblyBilled"
    FROM ${tableId(db.names, "api_call")} AS c WHERE budget IS NOT NULL AND ${which}
    GROUP BY 1, 2, 3, 4, 5 ORDER BY 1 DESC, 2, 3, 4`);
  });
}
