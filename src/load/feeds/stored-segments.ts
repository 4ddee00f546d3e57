import { sql } from "kysely";
import type { StoredSegment } from "../segment-warehouse.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";

/** What is known of each segment, with the newest look at its members. */
export async function readSegments(session: Session, names: SchemaNames): Promise<readonly StoredSegment[]> {
  return session.rows<StoredSegment>(sql`
    SELECT s.segment_id AS "segmentId", s.name, s.current_size AS "currentSize", y.observed_at AS "observedAt",
      y.known_members AS "knownMembers", y.removals_pending AS "removalsPending"
    FROM ${tableId(names, "segment")} AS s
    LEFT JOIN (
      SELECT DISTINCT ON (segment_id) * FROM ${tableId(names, "segment_sync")}
      ORDER BY segment_id, observed_at DESC, run_id DESC) AS y ON y.segment_id = s.segment_id
    ORDER BY s.segment_id`);
}
