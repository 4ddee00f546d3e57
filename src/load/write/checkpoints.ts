import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { tableId } from "../db/names.ts";
import type { Writing } from "./upsert.ts";

/** Sets a stream's checkpoint to any JSON value; null deletes it. */
export interface CheckpointMove {
  readonly stream: string;
  readonly cursor: unknown;
}

/** A stored checkpoint. */
export interface StoredCheckpoint {
  readonly stream: string;
  readonly cursor: unknown;
  readonly updatedAt: string;
  readonly runId: string;
}

/** Returns the checkpoints of a job. */
export async function readCheckpoints(db: Db, job: string): Promise<readonly StoredCheckpoint[]> {
  return db.transaction((session) =>
    session.rows<StoredCheckpoint>(sql`
      SELECT stream, cursor, updated_at AS "updatedAt", run_id AS "runId"
      FROM ${tableId(db.names, "checkpoint")} WHERE job = ${job} ORDER BY stream`),
  );
}

/** Moves or deletes a checkpoint. */
export async function moveCheckpoint(
  { session, names, run: { job, runId } }: Writing,
  { stream, cursor }: CheckpointMove,
): Promise<void> {
  const checkpoint = tableId(names, "checkpoint");
  if (cursor === null) {
    await session.change(sql`DELETE FROM ${checkpoint} WHERE job = ${job} AND stream = ${stream}`);
    return;
  }
  await session.change(sql`
    INSERT INTO ${checkpoint} (job, stream, cursor, updated_at, run_id, _synced_at)
    VALUES (${job}, ${stream}, ${JSON.stringify(cursor)}::jsonb, now(), ${runId}, now())
    ON CONFLICT (job, stream) DO UPDATE SET cursor = excluded.cursor, updated_at = excluded.updated_at,
      run_id = excluded.run_id, _synced_at = excluded._synced_at`);
}
