import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { tableId } from "../db/names.ts";
import { readBriefly } from "./read-briefly.ts";

/** Last reading of a segment on one UTC day, with the changes of all readings of the day. */
export interface SegmentDay {
  readonly day: string;
  readonly segmentId: string;
  /** Name in the configuration; null for none. */
  readonly name: string | null;
  readonly knownMembers: number;
  readonly added: number;
  readonly removed: number;
  readonly removalsPending: number;
}

/** Reads the sizes of all segments in the last UTC days, oldest first. */
export function readSegmentHistory(db: Db, days: number): Promise<readonly SegmentDay[]> {
  const { names } = db;
  return readBriefly(db, (session) =>
    session.rows<SegmentDay>(sql`
    SELECT DISTINCT ON (segment_id, day) day, segment_id AS "segmentId", name, known_members AS "knownMembers",
      (sum(added) OVER one_day)::bigint AS added, (sum(removed) OVER one_day)::bigint AS removed,
      removals_pending AS "removalsPending"
    FROM (
      SELECT observed_at::date AS day, y.*, s.name FROM ${tableId(names, "segment_sync")} AS y
      LEFT JOIN ${tableId(names, "segment")} AS s USING (segment_id)
      WHERE observed_at >= now()::date - ${days - 1}::integer) AS r
    WINDOW one_day AS (PARTITION BY segment_id, day)
    ORDER BY segment_id, day, observed_at DESC, run_id DESC`),
  );
}
