import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { type RunCounter, runCounters } from "../../schemas/ops.ts";
import type { Db } from "../db/db.ts";
import { tableId } from "../db/names.ts";

const counterNames = Object.keys(runCounters) as RunCounter[];

/** Commands that write rows outside of jobs. */
export type Writer = "erase" | "rejects";

/**
 * Registers a writer in `sync_run` before its first write and closes it after the last. Until then, `safe_until` stays
 * before its start.
 */
export async function asWriter<Result>(db: Db, writer: Writer, work: () => Promise<Result>): Promise<Result> {
  const runId = randomUUID();
  const syncRun = tableId(db.names, "sync_run");
  const end = (status: "succeeded" | "failed") =>
    db.transaction((session) =>
      session.change(sql`UPDATE ${syncRun} SET status = ${status}, finished_at = clock_timestamp(), _synced_at = clock_timestamp()
        WHERE run_id = ${runId}`),
    );
  await db.transaction((session) =>
    session.change(sql`
      INSERT INTO ${syncRun} (run_id, job, shard, job_type, status, started_at, records_due, _synced_at,
        ${sql.join(counterNames.map((name) => sql.id(name)))})
      VALUES (${runId}, ${`(${writer})`}, '0/1', ${writer}, 'running', now(), 0, now(), ${sql.join(counterNames.map(() => sql`0`))})
      ON CONFLICT DO NOTHING`),
  );
  let result: Result;
  try {
    result = await work();
  } catch (error) {
    // Report the error of the work; an open entry is ignored after a day.
    await end("failed").catch(() => {});
    throw error;
  }
  await end("succeeded");
  return result;
}
