import { type RawBuilder, sql } from "kysely";
import type { Cell } from "../../schemas/convert.ts";
import type { Db } from "../db/db.ts";
import type { Session } from "../db/session.ts";
import type { RunRef } from "../runs/fence.ts";
import { STAGE, stageRows, type Writing } from "../write/upsert.ts";

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

export async function countMembers(db: Db, segmentId: string): Promise<number> {
  const members = db.query
    .selectFrom("data.segment_member")
    .select(({ fn }) => fn.countAll<number>().as("members"));
  const [count = 0] = await db.pluck(
    members.where("segment_id", "=", segmentId).where("is_member", "=", true),
  );
  return count;
}

/** Clears the members listed in the last reading of a segment. */
export async function clearListed(db: Db, run: RunRef, segmentId: string): Promise<void> {
  const listed = db.query.deleteFrom("state.segment_listed").where("job", "=", run.job);
  await db.transaction(run, (session) => session.change(listed.where("segment_id", "=", segmentId)));
}

/** Lists members for the current reading of a segment; returns the number of new ones. @param pids query of `service_pid` */
export function listMembers(session: Session, run: RunRef, segmentId: string, pids: RawBuilder<unknown>) {
  return session.change(sql`
    INSERT INTO ${session.table("segment_listed")} (job, segment_id, service_pid, _synced_at, _run_id)
    SELECT DISTINCT ${run.job}, ${segmentId}, service_pid, now(), ${run.runId} FROM (${pids}) AS p ORDER BY service_pid
    ON CONFLICT DO NOTHING`);
}

export interface MemberPageRows {
  readonly segmentId: string;
  readonly members: readonly SeenMember[];
  /** False if this reading can't prove a removal. */
  readonly isListed: boolean;
}

export interface AddedMembers {
  /** People who were not known as members, including returning ones. */
  readonly added: number;
  /** Members omitted because they were erased. */
  readonly suppressed: number;
}

/**
 * Stores members of a response. A membership starts at `first_added_at`; for returning people, and for those that the last
 * complete reading should have listed, it starts at the response.
 */
export async function addMembers(
  writing: Writing,
  { segmentId, members, isListed }: MemberPageRows,
): Promise<AddedMembers> {
  const { session, run } = writing;
  const suppressed = await stageRows(writing, {
    table: "segment_member",
    columns: ["service_pid", "first_added_at", "first_seen_at", "_extra"],
    rows: members.map((one) => [one.servicePid, one.firstAddedAt, one.seenAt, one.extra]),
  });
  if (isListed) {
    await listMembers(session, run, segmentId, sql`SELECT service_pid FROM pg_temp.${sql.id(STAGE)}`);
  }
  return { added: await mergeMembers(writing, segmentId), suppressed };
}

/** Merges the staged members into members and history. Returns the number of people who were not known as members. */
async function mergeMembers({ session, run: { runId }, touch }: Writing, segmentId: string): Promise<number> {
  const member = session.table("segment_member");
  const history = session.table("segment_membership_history");
  await session.change(sql`
    CREATE TEMP TABLE member_change ON COMMIT DROP AS
    SELECT s.*, m.service_pid IS NULL AS is_new, coalesce(NOT m.is_member, true) AS is_added
    FROM (SELECT DISTINCT ON (service_pid) * FROM pg_temp.${sql.id(STAGE)} ORDER BY service_pid, _ord DESC) AS s
    LEFT JOIN ${member} AS m ON m.segment_id = ${segmentId} AND m.service_pid = s.service_pid
    WHERE m.service_pid IS NULL OR NOT m.is_member OR m.first_added_at IS DISTINCT FROM s.first_added_at
      OR m._extra IS DISTINCT FROM s._extra`);
  const written = await session.change(sql`
    INSERT INTO ${member} AS m (segment_id, service_pid, first_added_at, is_member, first_seen_at, removed_seen_at, _extra,
      _synced_at, _run_id)
    SELECT ${segmentId}, service_pid, first_added_at, true, first_seen_at, NULL, _extra, now(), ${runId}
    FROM pg_temp.member_change ORDER BY service_pid
    ON CONFLICT (segment_id, service_pid) DO UPDATE SET first_added_at = excluded.first_added_at, is_member = true,
      removed_seen_at = NULL, _extra = excluded._extra, _synced_at = excluded._synced_at, _run_id = excluded._run_id`);
  touch("segment_member", written);
  // An interval that ended at the start of the new one is reopened.
  const opened = await session.change(sql`
    INSERT INTO ${history} AS h (segment_id, service_pid, valid_from, valid_to, valid_from_basis, _synced_at, _run_id)
    SELECT ${segmentId}, service_pid,
      CASE WHEN is_vendor THEN first_added_at ELSE greatest(first_seen_at, last_valid_to) END, NULL,
      CASE WHEN is_vendor THEN 'vendor' ELSE 'observed' END, now(), ${runId}
    FROM (
      SELECT c.*, l.last_valid_to, c.is_new AND c.first_added_at IS NOT NULL AND l.last_valid_to IS NULL
        AND coalesce(c.first_added_at >= g.last_complete_sync_at, true) AS is_vendor
      FROM pg_temp.member_change AS c
      LEFT JOIN ${session.table("segment")} AS g ON g.segment_id = ${segmentId}
      LEFT JOIN LATERAL (
        SELECT max(valid_to) AS last_valid_to FROM ${history} AS h
        WHERE h.segment_id = ${segmentId} AND h.service_pid = c.service_pid) AS l ON true
      WHERE c.is_added) AS added
    ORDER BY service_pid
    ON CONFLICT (segment_id, service_pid, valid_from) DO UPDATE SET valid_to = NULL, _synced_at = excluded._synced_at,
      _run_id = excluded._run_id`);
  touch("segment_membership_history", opened);
  return opened;
}

export interface RemovedMembers {
  readonly removed: number;
  /** Known members who were not listed, but whose removal is not proven by a span. */
  readonly pending: number;
  /** Their distinct `first_added_at`, newest first, null last; at most 1,000. */
  readonly pendingAt: readonly Cell[];
}

const MAX_PENDING_AT = 1000;

/** Records the removal of known members who were not listed, if a span proves it. */
export async function removeMembers(
  { session, run: { job, runId }, touch }: Writing,
  segmentId: string,
  spans: readonly ProvenSpan[],
): Promise<RemovedMembers> {
  const member = session.table("segment_member");
  const history = session.table("segment_membership_history");
  await session.change(sql`ANALYZE ${session.table("segment_listed")}`);
  await session.change(sql`
    CREATE TEMP TABLE nominated ON COMMIT DROP AS
    SELECT m.service_pid, m.first_added_at, greatest(m.first_seen_at, (
      SELECT max(h.valid_from) FROM ${history} AS h
      WHERE h.segment_id = ${segmentId} AND h.service_pid = m.service_pid AND h.valid_to IS NULL
        AND h.valid_from_basis = 'observed')) AS known_since
    FROM ${member} AS m
    WHERE m.segment_id = ${segmentId} AND m.is_member AND NOT EXISTS (
      SELECT FROM ${session.table("segment_listed")} AS s
      WHERE s.job = ${job} AND s.segment_id = ${segmentId} AND s.service_pid = m.service_pid)`);
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
  touch("segment_member", removed);
  const closed = await session.change(sql`
    UPDATE ${history} AS h
    SET valid_to = greatest(h.valid_from, g.seen_at), _synced_at = now(), _run_id = ${runId}
    FROM pg_temp.gone AS g
    WHERE h.segment_id = ${segmentId} AND h.service_pid = g.service_pid AND h.valid_to IS NULL`);
  touch("segment_membership_history", closed);
  const pending = await session.rows<{ at: Cell; members: number }>(sql`
    SELECT first_added_at AS at, count(*) AS members FROM pg_temp.nominated AS n
    WHERE NOT EXISTS (SELECT FROM pg_temp.gone AS g WHERE g.service_pid = n.service_pid)
    GROUP BY 1 ORDER BY 1 DESC NULLS LAST`);
  return {
    removed,
    pending: pending.reduce((sum, { members }) => sum + members, 0),
    pendingAt: pending.slice(0, MAX_PENDING_AT).map(({ at }) => at),
  };
}

export interface StoredSegment {
  readonly segment_id: string;
  readonly name: string | null;
  /** Size last reported by the service; null if unknown. */
  readonly current_size: number | null;
  /** Time of the last reading of its members; null if never read, like the next two. */
  readonly observed_at: string | null;
  readonly known_members: number | null;
  /** Members not listed in that reading, whose removal is not confirmed; the next run checks again. */
  readonly removals_pending: number | null;
}

/** Returns all segments with the result of their last reading. */
export async function readSegments(db: Db): Promise<readonly StoredSegment[]> {
  return db.rows<StoredSegment>(sql`
    SELECT s.segment_id, s.name, s.current_size, y.observed_at, y.known_members, y.removals_pending
    FROM ${db.table("segment")} AS s
    LEFT JOIN (
      SELECT DISTINCT ON (segment_id) * FROM ${db.table("segment_sync")} WHERE known_members IS NOT NULL
      ORDER BY segment_id, observed_at DESC, run_id DESC) AS y ON y.segment_id = s.segment_id
    ORDER BY s.segment_id`);
}
