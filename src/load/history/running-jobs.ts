import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { tableId } from "../db/names.ts";
import { isBeating } from "../runs/fence.ts";
import { readBriefly } from "./read-briefly.ts";

/** A job, or a shard of it, that a process holds. */
export interface RunningJob {
  readonly job: string;
  readonly shard: string;
  readonly runId: string;
  readonly host: string;
  readonly pid: number;
  readonly since: string;
  readonly heartbeatAt: string;
  /** True after too long without a heartbeat: the next run takes over. */
  readonly isExpired: boolean;
  /** Null until the selection has counted them, and for jobs without an input. */
  readonly recordsDue: number | null;
  /** Records in calls of this run so far; null for shards, which the ledger doesn't distinguish. */
  readonly recordsSent: number | null;
  readonly rowsWritten: number;
  readonly requests: number;
}

/** Reads what runs now and its progress; also the end of the newest finished run, which changes when a job ends. */
export function readRunningJobs(
  db: Db,
): Promise<{ readonly jobs: readonly RunningJob[]; readonly lastEndAt: string | null }> {
  const { names } = db;
  const syncRun = tableId(names, "sync_run");
  return readBriefly(db, async (session) => {
    const jobs = await session.rows<RunningJob>(sql`
    SELECT l.job, l.shard, l.run_id AS "runId", l.host, l.pid, l.acquired_at AS since, l.heartbeat_at AS "heartbeatAt",
      NOT ${isBeating("l")} AS "isExpired", nullif(r.records_due, 0) AS "recordsDue",
      c.sent AS "recordsSent", coalesce(r.rows_written, 0) AS "rowsWritten", coalesce(r.requests, 0) AS requests
    FROM ${tableId(names, "job_lock")} AS l
    LEFT JOIN ${syncRun} AS r ON (r.run_id, r.job, r.shard) = (l.run_id, l.job, l.shard)
    LEFT JOIN LATERAL (
      SELECT coalesce(sum(records_reserved), 0)::bigint AS sent FROM ${tableId(names, "api_call")} AS c
      WHERE c.reserved_at >= l.acquired_at AND (c.run_id, c.job) = (l.run_id, l.job)) AS c ON l.shard = '0/1'
    WHERE l.released_at IS NULL ORDER BY l.acquired_at, l.job, l.shard`);
    const [end] = await session.rows<{ at: string | null }>(sql`
    SELECT max(finished_at) AS at FROM ${syncRun}`);
    return { jobs, lastEndAt: end?.at ?? null };
  });
}
