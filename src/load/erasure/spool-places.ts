import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { RunRef } from "../runs/run-ref.ts";

/** A spool's folder on one machine. */
interface SpoolPlace {
  /** Random ID of the disk: host names change, and several machines may mount one disk. */
  readonly disk: string;
  readonly host: string;
  readonly folder: string;
}

/** Answers of a job on one disk, which may not be loaded. */
interface DiskAnswers extends Omit<SpoolPlace, "disk"> {
  readonly job: string;
}

/** A job's row of a disk, with the lock under which it was last used. */
type PlaceRow = Pick<RunRef, "job" | "shard" | "epoch">;

/** Condition: the run that uses the place `p` holds its lock. */
const isInUse = (names: SchemaNames, also = sql`true`) => sql`EXISTS (
  SELECT FROM ${tableId(names, "job_lock")} AS l
  WHERE (l.job, l.shard, l.epoch) = (p.job, p.shard, p.epoch) AND l.released_at IS NULL AND ${also})`;

/** Records that a run may receive answers on a disk. */
export function useSpoolPlace(db: Db, run: RunRef, { disk, host, folder }: SpoolPlace): Promise<void> {
  return db.transaction(run, async (session) => {
    await session.change(sql`
      INSERT INTO ${tableId(db.names, "spool_place")} (disk_id, job, shard, host, folder, epoch, since, _synced_at, _run_id)
      VALUES (${disk}, ${run.job}, ${run.shard}, ${host}, ${folder}, ${run.epoch}, now(), now(), ${run.runId})
      ON CONFLICT (disk_id, job, shard) DO UPDATE SET epoch = excluded.epoch, _synced_at = now(), _run_id = excluded._run_id`);
  });
}

/** Records that a run left no answer on a disk. */
export function leaveSpoolPlace(db: Db, run: RunRef, disk: string): Promise<void> {
  return db.transaction(run, async (session) => {
    await session.change(sql`DELETE FROM ${tableId(db.names, "spool_place")}
      WHERE disk_id = ${disk} AND job = ${run.job} AND shard = ${run.shard} AND epoch = ${run.epoch}`);
  });
}

/** Places of a disk that no run uses. */
export function readUnusedPlaces(db: Db, disk: string): Promise<readonly PlaceRow[]> {
  return db.transaction((session) =>
    session.rows<PlaceRow>(sql`SELECT job, shard, epoch FROM ${tableId(db.names, "spool_place")} AS p
      WHERE disk_id = ${disk} AND NOT ${isInUse(db.names)}`),
  );
}

/** Removes places of a disk that were found empty, unless a run used one since. */
export async function removeEmptyPlaces(db: Db, disk: string, empty: readonly PlaceRow[]): Promise<void> {
  if (empty.length === 0) return;
  await db.transaction((session) =>
    session.change(sql`DELETE FROM ${tableId(db.names, "spool_place")} AS p
      USING json_to_recordset(${JSON.stringify(empty)}::json) AS e(job text, shard text, epoch bigint)
      WHERE p.disk_id = ${disk} AND (p.job, p.shard, p.epoch) = (e.job, e.shard, e.epoch)`),
  );
}

/** Removes what is recorded of a disk that is gone, by host and folder; returns the number of rows. */
export function removeLostDisk(db: Db, place: Omit<SpoolPlace, "disk">): Promise<number> {
  return db.transaction((session) =>
    session.change(sql`DELETE FROM ${tableId(db.names, "spool_place")}
      WHERE host = ${place.host} AND folder = ${place.folder}`),
  );
}

/**
 * Answers on other disks: of jobs with calls whose outcome isn't recorded, made since the disk was last seen empty. Those of a run in
 * progress count only if the disk had some before it.
 */
export function answersElsewhere(
  session: Session,
  names: SchemaNames,
  here: string | null,
): Promise<readonly DiskAnswers[]> {
  return session.rows<DiskAnswers>(sql`
    SELECT DISTINCT p.job, p.host, p.folder FROM ${tableId(names, "spool_place")} AS p
    WHERE p.disk_id IS DISTINCT FROM ${here} AND NOT ${isInUse(names, sql`l.acquired_at <= p.since`)}
      AND EXISTS (SELECT FROM ${tableId(names, "api_call")} AS c
        WHERE c.job = p.job AND c.settled_at IS NULL AND c.reserved_at >= p.since)
    ORDER BY 1, 2, 3`);
}
