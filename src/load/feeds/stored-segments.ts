import type { Db } from "../db/db.ts";
import { sql } from "kysely";
import { tableId } from "../db/names.ts";

/** Stored state of a segment. */
export interface StoredSegment {
  readonly segmentId: string;
  readonly name: string | null;
  /** Size last reported by the service; null if unknown. */
  readonly currentSize: number | null;
  /** Time of the last reading of its members; null if never read, like the next two. */
  readonly observedAt: string | null;
  readonly knownMembers: number | null;
  readonly removalsPending: number | null;
}

/** Returns all segments with the result of their last reading. */
export async function readSegments(db: Db): Promise<readonly StoredSegment[]> {
  const { names } = db;
  return db.transaction(async (session) => {
    return session.rows<StoredSegment>(sql`
    SELECT s.segment_id AS "segmentId", s.name, s.current_size AS "currentSize", y.observed_at AS "observedAt",
      y.known_members AS "knownMembers", y.removals_pending AS "removalsPending"
    FROM ${tableId(names, "segment")} AS s
    LEFT JOIN (
      SELECT DISTINCT ON (segment_id) * FROM ${tableId(names, "segment_sync")}
      ORDER BY segment_id, observed_at DESC, run_id DESC) AS y ON y.segment_id = s.segment_id
    ORDER BY s.segment_id`);
  });
}

/** Members that a push job added. */
export interface PushedMembers {
  readonly job: string;
  readonly segmentId: string;
  /** Members that the job alone added. */
  readonly own: number;
  /** Members of calls that may have found some of them already in the segment; never removed. */
  readonly inDoubt: number;
}

/** Counts the members of each push job. */
export async function readPushedMembers(db: Db): Promise<readonly PushedMembers[]> {
  return db.transaction((session) =>
    session.rows<PushedMembers>(sql`
      SELECT job, segment_id AS "segmentId", count(*) FILTER (WHERE is_own) AS own,
        count(*) FILTER (WHERE is_own IS NULL) AS "inDoubt"
      FROM ${tableId(db.names, "segment_push_member")} WHERE state = 'member' GROUP BY 1, 2`),
  );
}
