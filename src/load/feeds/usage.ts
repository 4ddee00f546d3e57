import type { Db } from "../db/db.ts";
import { sql } from "kysely";
import { tableId } from "../db/names.ts";

/** Latest reading of an organization's person search quota. */
interface StoredQuota {
  readonly orgId: string;
  readonly observedAt: string;
  /** Records per UTC day; null if the service did not report it. */
  readonly limit: number | null;
  readonly left: number | null;
}

/** Period of a feed that can no longer be read. */
interface StoredGap {
  readonly job: string;
  readonly stream: string;
  /** Inclusive. */
  readonly gapStart: string;
  /** Exclusive. */
  readonly gapEnd: string;
  readonly noticedAt: string;
}

/** Reads the latest quota of each organization. */
export async function readQuotas(db: Db): Promise<readonly StoredQuota[]> {
  const { names } = db;
  return db.transaction(async (session) => {
    return session.rows<StoredQuota>(sql`
    SELECT DISTINCT ON (org_id) org_id AS "orgId", observed_at AS "observedAt", daily_record_limit AS "limit",
      current_day_remaining AS "left"
    FROM ${tableId(names, "person_search_quota")} ORDER BY org_id, observed_at DESC`);
  });
}

/** Returns the first day of person search usage that may be missing. */
export async function firstOpenSearchDay(db: Db, orgId: string, upTo: string): Promise<string | null> {
  const { names } = db;
  return db.transaction(async (session) => {
    const [row] = await session.rows<{ day: string | null }>(sql`
    SELECT coalesce(max(period_start) FILTER (WHERE is_final) + 1, min(period_start))::text AS day
    FROM ${tableId(names, "person_search_usage_daily")}
    WHERE org_id = ${orgId} AND period_start <= ${upTo}::date`);
    return row?.day ?? null;
  });
}

/** Reads the gaps of feeds. */
export async function readGaps(db: Db): Promise<readonly StoredGap[]> {
  const { names } = db;
  return db.transaction(async (session) => {
    return session.rows<StoredGap>(sql`
    SELECT job, stream, gap_start AS "gapStart", gap_end AS "gapEnd", noticed_at AS "noticedAt"
    FROM ${tableId(names, "sync_gap")} ORDER BY noticed_at DESC, job, stream, gap_start LIMIT 100`);
  });
}
