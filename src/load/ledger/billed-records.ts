import { sql } from "kysely";
import { billedRecords } from "../../schemas/billing.ts";
import type { Db } from "../db/db.ts";
import { tableId } from "../db/names.ts";

/** Records billed in a run, by job, as far as the answers state it. Jobs without billed calls are absent. */
export type BilledRecords = ReadonlyMap<string, number>;

/** Sums the records billed in a run since an instant: every validated address, and every match, of which an unlock stores its charge. */
export async function readBilledRecords(
  db: Db,
  { runId, since }: { readonly runId: string; readonly since: string },
): Promise<BilledRecords> {
  return db.transaction(async (session) => {
    const rows = await session.rows<{ readonly job: string; readonly billed: number }>(sql`
    SELECT job, sum(${sql.raw(billedRecords)})::bigint AS billed
    FROM ${tableId(db.names, "api_call")}
    WHERE run_id = ${runId} AND budget IS NOT NULL AND started_at >= ${since}::timestamptz
    GROUP BY job ORDER BY job`);
    return new Map(rows.map(({ job, billed }) => [job, billed]));
  });
}
