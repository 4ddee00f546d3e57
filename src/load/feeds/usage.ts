import type { Db } from "../db/db.ts";
import { sql } from "kysely";

/** Latest reading of an organization's person search quota. */
export interface StoredQuota {
  readonly org_id: string;
  readonly observed_at: string;
  /** Records per UTC day; null if the service did not report it. */
  readonly limit: number | null;
  readonly left: number | null;
}

/** Period of a feed that can no longer be read. */
export interface StoredGap {
  readonly job: string;
  readonly stream: string;
  /** Inclusive. */
  readonly gap_start: string;
  /** Exclusive. */
  readonly gap_end: string;
  readonly noticed_at: string;
}

/** Reads the latest quota of each organization. */
export async function readQuotas(db: Db): Promise<readonly StoredQuota[]> {
  return db.rows<StoredQuota>(sql`
    SELECT DISTINCT ON (org_id) org_id, observed_at, daily_record_limit AS "limit", current_day_remaining AS "left"
    FROM ${db.table("person_search_quota")} ORDER BY org_id, observed_at DESC`);
}

/** Returns the first day of person search usage that may be missing. */
export async function firstOpenSearchDay(db: Db, orgId: string, upTo: string): Promise<string | null> {
  const [row] = await db.rows<{ day: string | null }>(sql`
    SELECT coalesce(max(period_start) FILTER (WHERE is_final) + 1, min(period_start))::text AS day
    FROM ${db.table("person_search_usage_daily")}
    WHERE org_id = ${orgId} AND period_start <= ${upTo}::date`);
  return row?.day ?? null;
}

/** Reads the gaps of feeds. */
export async function readGaps(db: Db): Promise<readonly StoredGap[]> {
  return db.rows<StoredGap>(sql`
    SELECT job, stream, gap_start, gap_end, noticed_at
    FROM ${db.table("sync_gap")} ORDER BY noticed_at DESC, job, stream, gap_start LIMIT 100`);
}
