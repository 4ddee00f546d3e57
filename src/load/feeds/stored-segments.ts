import type { Db } from "../db/db.ts";
import { isMigrated } from "../db/setup.ts";
import { sql } from "kysely";
import type { StoredSegment } from "./segments.ts";
import { tableId } from "../db/names.ts";

/** What is known of each segment, with the newest look at its members. */
export async function readSegments(db: Db): Promise<readonly StoredSegment[]> {
  if (!(await isMigrated(db))) return [];
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
