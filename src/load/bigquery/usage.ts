import { sql } from "kysely";
import type { StoredGap, StoredQuota } from "../usage-warehouse.ts";
import { tableId } from "./names.ts";
import type { Session } from "./session.ts";

/** The newest quota of each organization. */
export async function readQuotas(session: Session): Promise<readonly StoredQuota[]> {
  return session.rows<StoredQuota>(sql`
    SELECT org_id AS orgId, observed_at AS observedAt, daily_record_limit AS \`limit\`, current_day_remaining AS \`left\`
    FROM ${tableId(session.names, "ops", "person_search_quota")}
    WHERE TRUE QUALIFY ROW_NUMBER() OVER (PARTITION BY org_id ORDER BY observed_at DESC) = 1 ORDER BY org_id`);
}

/** The first day of person search that may have been missed. */
export async function firstOpenSearchDay(
  session: Session,
  orgId: string,
  upTo: string,
): Promise<string | null> {
  const [row] = await session.rows<{ day: string | null }>(sql`
    SELECT CAST(IFNULL(DATE_ADD(MAX(IF(is_final, period_start, NULL)), INTERVAL 1 DAY), MIN(period_start)) AS STRING) AS day
    FROM ${tableId(session.names, "ops", "person_search_usage_daily")}
    WHERE org_id = ${orgId} AND period_start <= CAST(${upTo} AS DATE)`);
  return row?.day ?? null;
}

/** What of feeds can't be read any more. */
export async function readGaps(session: Session): Promise<readonly StoredGap[]> {
  return session.rows<StoredGap>(sql`
    SELECT job, stream, gap_start AS gapStart, gap_end AS gapEnd, noticed_at AS noticedAt
    FROM ${tableId(session.names, "ops", "sync_gap")} ORDER BY noticed_at DESC, job, stream, gap_start LIMIT 100`);
}
