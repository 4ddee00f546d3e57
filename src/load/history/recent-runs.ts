import { sql } from "kysely";
import { writers } from "../../schemas/ops.ts";
import type { Db } from "../db/db.ts";
import { tableId } from "../db/names.ts";
import { type PastRun, pastRunOf, type RunRow, runColumns } from "../runs/job-status.ts";
import { readBriefly } from "./read-briefly.ts";

/** Reads the jobs of the newest runs, newest run first, jobs in the order of their start. */
export function readRecentRuns(db: Db, runs: number): Promise<readonly PastRun[]> {
  const syncRun = tableId(db.names, "sync_run");
  return readBriefly(db, async (session) => {
    const rows = await session.rows<RunRow>(sql`
    WITH newest AS (
      SELECT run_id AS id, max(started_at) AS at FROM ${syncRun} WHERE job <> ALL(${[...writers]}::text[])
      GROUP BY run_id ORDER BY at DESC, run_id LIMIT ${runs})
    SELECT ${runColumns} FROM ${syncRun} JOIN newest ON run_id = id
    ORDER BY at DESC, run_id, started_at, job, shard`);
    return rows.map(pastRunOf);
  });
}
