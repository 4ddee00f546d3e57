import { sql } from "kysely";
import { tableId } from "./names.ts";
import type { Session } from "./session.ts";

/** The segments in which these people are, as far as it is known here. */
export async function membershipsOf(
  session: Session,
  pids: readonly string[],
): Promise<readonly { readonly segmentId: string; readonly servicePid: string }[]> {
  if (pids.length === 0) return [];
  const own = sql`service_pid IN UNNEST(${[...pids]})`;
  return session.rows<{ segmentId: string; servicePid: string }>(sql`
    SELECT segment_id AS segmentId, service_pid AS servicePid
    FROM ${tableId(session.names, "data", "segment_member")} WHERE is_member AND ${own}
    UNION DISTINCT SELECT segment_id, service_pid
    FROM ${tableId(session.names, "data", "segment_push_member")} WHERE state != 'invalid' AND ${own} ORDER BY 1, 2`);
}
