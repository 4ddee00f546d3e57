import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { writers } from "../../schemas/ops.ts";
import type { Database } from "../../schemas/registry.ts";

/** A job of a run, or a shard of it. */
export type PastJob = Pick<
  Database["ops.sync_run"],
  "run_id" | "job" | "job_type" | "shard" | "status" | "limited_by" | "started_at" | "finished_at" | "error"
>;

/** Sums over the jobs of a run. */
export interface RunTotals {
  readonly run_id: string;
  readonly started_at: string;
  /** Null while it is running. */
  readonly finished_at: string | null;
  readonly records_sent: number;
  readonly records_matched: number;
  readonly records_rejected: number;
  readonly records_remaining: number;
  /** In the order of their start. */
  readonly jobs: readonly Pick<PastJob, "job" | "shard" | "status" | "limited_by" | "error">[];
}

/** Reads the newest runs of jobs, newest first. */
export function readRunTotals(db: Db, limit: number): Promise<readonly RunTotals[]> {
  return db.rows<RunTotals>(sql`
    SELECT run_id, min(started_at) AS started_at, CASE WHEN bool_and(finished_at IS NOT NULL) THEN max(finished_at) END AS finished_at,
      sum(records_sent)::bigint AS records_sent, sum(records_matched)::bigint AS records_matched,
      sum(records_rejected)::bigint AS records_rejected, sum(records_remaining)::bigint AS records_remaining,
      json_agg(json_build_object('job', job, 'shard', shard, 'status', status, 'limited_by', limited_by, 'error', error)
        ORDER BY started_at, job, shard) AS jobs
    FROM ${db.table("sync_run")} WHERE job <> ALL(${[...writers]}::text[])
    GROUP BY run_id ORDER BY max(started_at) DESC, run_id LIMIT ${limit}`);
}

/** Maximum IDs to name. */
const MAX_FOUND = 6;

/** Finds the runs with an ID, or else with IDs that begin so, newest first. */
export async function findRuns(db: Db, id: string): Promise<readonly string[]> {
  const found = await db.pluck<string>(sql`
    SELECT run_id FROM ${db.table("sync_run")}
    WHERE job <> ALL(${[...writers]}::text[]) AND left(run_id, length(${id})) = ${id}
    GROUP BY run_id ORDER BY max(started_at) DESC, run_id LIMIT ${MAX_FOUND}`);
  return found.includes(id) ? [id] : found;
}

/** Reads the jobs of a run with their counters, in the order of their start. */
export function readRunJobs(db: Db, runId: string): Promise<readonly Database["ops.sync_run"][]> {
  return db.rows(
    db.query
      .selectFrom("ops.sync_run")
      .selectAll()
      .where("run_id", "=", runId)
      .where("job", "not in", writers)
      .orderBy(sql`started_at, job, shard`),
  );
}
