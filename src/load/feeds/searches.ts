import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { quoteLiteral, quoteQualified } from "../db/names.ts";
import type { Writing } from "../write/upsert.ts";
import { listMembers } from "./members.ts";

/** Step of a reading of an audience's members: its start, PIDs of its pages, or its end. */
type MemberReading =
  | { readonly at: "start" | "end" }
  | { readonly at: "page"; readonly pids: readonly string[] };

/** Keeps the list of the members read so far; at the end, deletes stored members that are not on it. */
export async function noteReading(
  { session, run, touch }: Writing,
  segmentId: string,
  reading: MemberReading,
): Promise<void> {
  const listed = session.table("segment_listed");
  const members = session.table("audience_search_member");
  if (reading.at === "page") {
    const stored = sql`SELECT service_pid FROM ${members}
      WHERE segment_id = ${segmentId} AND service_pid = ANY(${[...reading.pids]}::text[])`;
    await listMembers(session, run, segmentId, stored);
    return;
  }
  if (reading.at === "end") {
    const deleted = await session.change(sql`
      DELETE FROM ${members} AS m WHERE segment_id = ${segmentId} AND NOT EXISTS (
        SELECT FROM ${listed} AS l WHERE (l.job, l.segment_id, l.service_pid) = (${run.job}, m.segment_id, m.service_pid))`);
    touch("audience_search_member", deleted);
  }
  const readList = session.query.deleteFrom("state.segment_listed").where("job", "=", run.job);
  await session.change(readList.where("segment_id", "=", segmentId));
}

/** Query for the members of the newest stored audience with a query. */
export function membersSql(schema: string, query: string): string {
  const at = (name: string) => quoteQualified([schema, name]);
  return `SELECT m.service_pid FROM ${at("audience_search_member")} AS m
WHERE m.segment_id = (
  SELECT s.segment_id FROM ${at("audience_search")} AS s
  WHERE s.query = ${quoteLiteral(query)} AND s.members_stored_at IS NOT NULL ORDER BY s.created_at DESC, s.segment_id LIMIT 1)`;
}

export type StoredAudience = Awaited<ReturnType<typeof readAudiences>>[number];

/** Largest charge of an unlock; null if unknown. */
export function mostBillable({
  total_count: total,
  estimated_billable_count: estimate,
}: Pick<StoredAudience, "total_count" | "estimated_billable_count">): number | null {
  return total === null ? null : Math.max(total, estimate ?? 0);
}

export function readAudiences(db: Db, segmentIds: readonly string[]) {
  const members = sql<number>`(SELECT count(*) FROM ${db.table("audience_search_member")} AS m WHERE m.segment_id = s.segment_id)`;
  return db.rows(
    db.query
      .selectFrom("data.audience_search as s")
      .select(["segment_id", "search_name", "query", "status", "error_code", "error_message"])
      .select(["suggested_search", "materialization_extent", "total_count", "estimated_billable_count"])
      .select(["results_unlocked", "billable_count", "unlocked_at", members.as("members")])
      .where(sql<boolean>`segment_id = ANY(${[...segmentIds]}::text[])`),
  );
}

/** Share of an audience with a channel, or in a bucket. */
export interface AudienceShare {
  /** `coverage`, or the distribution. */
  readonly kind: string;
  readonly label: string | null;
  readonly count: number | null;
  readonly percentage: string | null;
}

/** Returns coverage and distributions of an audience. */
export function readShares(db: Db, segmentId: string): Promise<readonly AudienceShare[]> {
  return db.rows<AudienceShare>(sql`
    SELECT 'coverage' AS kind, channel AS label, count, percentage::text, -1 AS position
    FROM ${db.table("audience_search_coverage")} WHERE segment_id = ${segmentId}
    UNION ALL
    SELECT distribution, label, count, percentage::text, position
    FROM ${db.table("audience_search_distribution")} WHERE segment_id = ${segmentId}
    ORDER BY 1, 5, 2`);
}

/** Counts the members of a segment that a job's current reading has listed. */
export async function countListed(db: Db, job: string, segmentId: string): Promise<number> {
  const listed = db.query
    .selectFrom("state.segment_listed")
    .select(({ fn }) => fn.countAll<number>().as("members"));
  const [count = 0] = await db.pluck(listed.where("job", "=", job).where("segment_id", "=", segmentId));
  return count;
}

/** Latest reading of an organization's person search quota; null where the service did not report it. */
export type StoredQuota = Awaited<ReturnType<typeof readQuotas>>[number];

/** Reads the latest quota of each organization. */
export function readQuotas(db: Db) {
  return db.rows(
    db.query
      .selectFrom("ops.person_search_quota")
      .distinctOn("org_id")
      .select(["org_id", "observed_at", "daily_record_limit as limit", "current_day_remaining as left"])
      .orderBy(sql`org_id, observed_at DESC`),
  );
}

/** Returns the first day of person search usage that may be missing. */
export async function firstOpenSearchDay(db: Db, orgId: string, upTo: string): Promise<string | null> {
  const [day = null] = await db.pluck<string | null>(sql`
    SELECT coalesce(max(period_start) FILTER (WHERE is_final) + 1, min(period_start))::text AS day
    FROM ${db.table("person_search_usage_daily")}
    WHERE org_id = ${orgId} AND period_start <= ${upTo}::date`);
  return day;
}

/** Period of a feed that can no longer be read. */
export type StoredGap = Awaited<ReturnType<typeof readGaps>>[number];

export function readGaps(db: Db) {
  const gaps = db.query.selectFrom("ops.sync_gap");
  const shown = gaps.select(["job", "stream", "gap_start", "gap_end", "noticed_at"]);
  return db.rows(shown.orderBy(sql`noticed_at DESC, job, stream, gap_start`).limit(100));
}
