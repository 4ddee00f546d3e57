import { sql } from "kysely";
import type { Cell } from "../../schemas/convert.ts";
import type { Db } from "../db/db.ts";
import { tableId } from "../db/names.ts";
import type { FeedCommit } from "./feed-commit.ts";
import { commitFeedWith, copyMany, dropErased, type FeedLoadContext } from "./feeds.ts";
import type { RunRef } from "../runs/run-ref.ts";

/** Member in a response. */
export interface SeenMember {
  readonly servicePid: string;
  /** Instant; null if the service gave none. */
  readonly firstAddedAt: Cell;
  /** Time of the response. */
  readonly seenAt: string;
  /** Undeclared fields as JSON text. */
  readonly extra: Cell;
}

/**
 * Span of `first_added_at` that responses covered completely: people added within it but not listed were not members at
 * `seenAt`. Both ends are exclusive; null for an open end.
 */
export interface ProvenSpan {
  readonly after: string | null;
  readonly before: string | null;
  readonly seenAt: string;
}

/** Stored members of a segment. */
export interface MemberCounts {
  /** Rows of `segment_member` with `is_member`. */
  readonly living: number;
  /** All rows, including former members. */
  readonly known: number;
}

/** Counts the stored members of a segment. */
export function countMembers(db: Db, segmentId: string): Promise<MemberCounts> {
  return db.transaction(async (session) => {
    const [counts] = await session.rows<MemberCounts>(sql`
      SELECT count(*) FILTER (WHERE is_member) AS living, count(*) AS known
      FROM ${tableId(db.names, "segment_member")} WHERE segment_id = ${segmentId}`);
    return counts ?? { living: 0, known: 0 };
  });
}

/** Clears the members listed in the last reading of a segment. */
export function clearListed(db: Db, run: RunRef, segmentId: string): Promise<void> {
  return db.transaction(run, async (session) => {
    await session.change(sql`
      DELETE FROM ${tableId(db.names, "segment_listed")} WHERE job = ${run.job} AND segment_id = ${segmentId}`);
  });
}

/** Records that the staged members were listed. */
async function noteListed(
  { session, names }: FeedLoadContext,
  run: RunRef,
  segmentId: string,
): Promise<void> {
  await session.change(sql`
    INSERT INTO ${tableId(names, "segment_listed")} (job, segment_id, service_pid, _synced_at, _run_id)
    SELECT DISTINCT ${run.job}, ${segmentId}, service_pid, now(), ${run.runId} FROM pg_temp.stage_member ORDER BY service_pid
    ON CONFLICT DO NOTHING`);
}

/** Creates the temporary table `stage_member` without erased people. Returns how many were omitted. */
async function stageMembers(context: FeedLoadContext, members: readonly SeenMember[]): Promise<number> {
  const { session } = context;
  await session.change(sql`
    CREATE TEMP TABLE stage_member (service_pid text, first_added_at timestamptz, seen_at timestamptz, extra jsonb,
      ord bigint) ON COMMIT DROP`);
  const columns = ["service_pid", "first_added_at", "seen_at", "extra", "ord"];
  const rows = members.map(({ servicePid, firstAddedAt, seenAt, extra }, ord): Cell[] => [
    servicePid,
    firstAddedAt,
    seenAt,
    extra,
    String(ord),
  ]);
  await copyMany(session, "pg_temp.stage_member", columns, rows);
  const erased = await dropErased(context, "stage_member");
  await session.change(sql`ANALYZE pg_temp.stage_member`);
  return erased;
}

/** Members of a page to be stored. */
export interface MemberPageRows {
  readonly segmentId: string;
  readonly members: readonly SeenMember[];
  /** False if this reading can't prove a removal. */
  readonly isListed: boolean;
}

/** Changes made by storing members. */
export interface AddedMembers {
  readonly rowsWritten: number;
  /** People who were not known as members, including returning ones. */
  readonly added: number;
  /** Members omitted because they were erased. */
  readonly suppressed: number;
}

/**
 * Stores members of a response. A membership starts at `first_added_at`; for returning people, and for those that the last
 * complete reading should have listed, it starts at the response.
 */
export async function addMembers(db: Db, commit: FeedCommit, page: MemberPageRows): Promise<AddedMembers> {
  const { segmentId, members, isListed } = page;
  const { work, rowsWritten } = await commitFeedWith(db, commit, async (context) => {
    const suppressed = await stageMembers(context, members);
    if (isListed) await noteListed(context, commit.run, segmentId);
    return { added: await mergeMembers(context, segmentId), suppressed };
  });
  return { added: 0, suppressed: 0, ...work, rowsWritten };
}

/** Merges `stage_member` into members and history. Returns the number of people who were not known as members. */
async function mergeMembers(context: FeedLoadContext, segmentId: string): Promise<number> {
  const { session, names, runId } = context;
  const member = tableId(names, "segment_member");
  const history = tableId(names, "segment_membership_history");
  await session.change(sql`
    CREATE TEMP TABLE member_change ON COMMIT DROP AS
    SELECT s.*, m.service_pid IS NULL AS is_new, coalesce(NOT m.is_member, true) AS is_added
    FROM (SELECT DISTINCT ON (service_pid) * FROM pg_temp.stage_member ORDER BY service_pid, ord DESC) AS s
    LEFT JOIN ${member} AS m ON m.segment_id = ${segmentId} AND m.service_pid = s.service_pid
    WHERE m.service_pid IS NULL OR NOT m.is_member OR m.first_added_at IS DISTINCT FROM s.first_added_at
      OR m._extra IS DISTINCT FROM s.extra`);
  const written = await session.change(sql`
    INSERT INTO ${member} AS m (segment_id, service_pid, first_added_at, is_member, first_seen_at, removed_seen_at, _extra,
      _synced_at, _run_id)
    SELECT ${segmentId}, service_pid, first_added_at, true, seen_at, NULL, extra, now(), ${runId}
    FROM pg_temp.member_change ORDER BY service_pid
    ON CONFLICT (segment_id, service_pid) DO UPDATE SET first_added_at = excluded.first_added_at, is_member = true,
      removed_seen_at = NULL, _extra = excluded._extra, _synced_at = excluded._synced_at, _run_id = excluded._run_id`);
  context.touch("segment_member", written);
  // An interval that ended at the start of the new one is reopened.
  const opened = await session.change(sql`
    INSERT INTO ${history} AS h (segment_id, service_pid, valid_from, valid_to, valid_from_basis, _synced_at, _run_id)
    SELECT ${segmentId}, service_pid,
      CASE WHEN is_vendor THEN first_added_at ELSE greatest(seen_at, last_valid_to) END, NULL,
      CASE WHEN is_vendor THEN 'vendor' ELSE 'observed' END, now(), ${runId}
    FROM (
      SELECT c.*, l.last_valid_to, c.is_new AND c.first_added_at IS NOT NULL AND l.last_valid_to IS NULL
        AND coalesce(c.first_added_at >= g.last_complete_sync_at, true) AS is_vendor
      FROM pg_temp.member_change AS c
      LEFT JOIN ${tableId(names, "segment")} AS g ON g.segment_id = ${segmentId}
      LEFT JOIN LATERAL (
        SELECT max(valid_to) AS last_valid_to FROM ${history} AS h
        WHERE h.segment_id = ${segmentId} AND h.service_pid = c.service_pid) AS l ON true
      WHERE c.is_added) AS added
    ORDER BY service_pid
    ON CONFLICT (segment_id, service_pid, valid_from) DO UPDATE SET valid_to = NULL, _synced_at = excluded._synced_at,
      _run_id = excluded._run_id`);
  context.touch("segment_membership_history", opened);
  return opened;
}

/** Number of removals recorded and removals pending. */
export interface SettledMembers {
  readonly rowsWritten: number;
  readonly removed: number;
  /** Known members who were not listed, but whose removal is not proven by a span. */
  readonly pending: number;
  /** Their distinct `first_added_at`, newest first, null last; at most 1,000. */
  readonly pendingAt: readonly Cell[];
}

/** Limits {@link SettledMembers.pendingAt}. */
const MAX_PENDING_AT = 1000;

/** Records the removal of known members who were not listed, if a span proves it. */
export async function settleMembers(
  db: Db,
  commit: FeedCommit,
  segmentId: string,
  spans: readonly ProvenSpan[],
): Promise<SettledMembers> {
  const { work, rowsWritten } = await commitFeedWith(db, commit, async (context) => {
    const { session, names, runId } = context;
    const member = tableId(names, "segment_member");
    const history = tableId(names, "segment_membership_history");
    await session.change(sql`ANALYZE ${tableId(names, "segment_listed")}`);
    await session.change(sql`
      CREATE TEMP TABLE nominated ON COMMIT DROP AS
      SELECT m.service_pid, m.first_added_at, greatest(m.first_seen_at, (
        SELECT max(h.valid_from) FROM ${history} AS h
        WHERE h.segment_id = ${segmentId} AND h.service_pid = m.service_pid AND h.valid_to IS NULL
          AND h.valid_from_basis = 'observed')) AS known_since
      FROM ${member} AS m
      WHERE m.segment_id = ${segmentId} AND m.is_member AND NOT EXISTS (
        SELECT FROM ${tableId(names, "segment_listed")} AS s
        WHERE s.job = ${commit.run.job} AND s.segment_id = ${segmentId} AND s.service_pid = m.service_pid)`);
    // Another job may have seen the member after the response of the span.
    await session.change(sql`
      CREATE TEMP TABLE gone ON COMMIT DROP AS
      SELECT n.service_pid, min(p."seenAt") AS seen_at
      FROM pg_temp.nominated AS n
      JOIN json_to_recordset(${JSON.stringify(spans)}::json)
        AS p("after" timestamptz, "before" timestamptz, "seenAt" timestamptz)
      ON (p."after" IS NULL OR n.first_added_at > p."after") AND (p."before" IS NULL OR n.first_added_at < p."before")
        AND n.known_since <= p."seenAt"
      GROUP BY n.service_pid`);
    const removed = await session.change(sql`
      UPDATE ${member} AS m SET is_member = false, removed_seen_at = g.seen_at, _synced_at = now(), _run_id = ${runId}
      FROM pg_temp.gone AS g WHERE m.segment_id = ${segmentId} AND m.service_pid = g.service_pid`);
    context.touch("segment_member", removed);
    const closed = await session.change(sql`
      UPDATE ${history} AS h
      SET valid_to = greatest(h.valid_from, g.seen_at), _synced_at = now(), _run_id = ${runId}
      FROM pg_temp.gone AS g
      WHERE h.segment_id = ${segmentId} AND h.service_pid = g.service_pid AND h.valid_to IS NULL`);
    context.touch("segment_membership_history", closed);
    const pending = await session.rows<{ at: Cell; members: number }>(sql`
      SELECT first_added_at AS at, count(*) AS members FROM pg_temp.nominated AS n
      WHERE NOT EXISTS (SELECT FROM pg_temp.gone AS g WHERE g.service_pid = n.service_pid)
      GROUP BY 1 ORDER BY 1 DESC NULLS LAST`);
    return {
      removed,
      pending: pending.reduce((sum, { members }) => sum + members, 0),
      pendingAt: pending.slice(0, MAX_PENDING_AT).map(({ at }) => at),
    };
  });
  return { removed: 0, pending: 0, pendingAt: [], ...work, rowsWritten };
}
