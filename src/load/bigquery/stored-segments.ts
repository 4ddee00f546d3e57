import { sql } from "kysely";
import type { StoredSegment } from "../segment-warehouse.ts";
import { tableId } from "./names.ts";
import type { Session } from "./session.ts";

/** What is known of each segment, with the newest look at its members. */
export async function readSegments(session: Session): Promise<readonly StoredSegment[]> {
  return session.rows<StoredSegment>(sql`
    SELECT s.segment_id AS segmentId, s.name, s.current_size AS currentSize, y.observed_at AS observedAt,
      y.known_members AS knownMembers, y.removals_pending AS removalsPending
    FROM ${tableId(session.names, "data", "segment")} AS s
    LEFT JOIN (
      SELECT * FROM ${tableId(session.names, "ops", "segment_sync")} WHERE TRUE
      QUALIFY ROW_NUMBER() OVER (PARTITION BY segment_id ORDER BY observed_at DESC, run_id DESC) = 1
    ) AS y ON y.segment_id = s.segment_id
    ORDER BY s.segment_id`);
}
