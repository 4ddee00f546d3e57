import type { Db } from "../db/db.ts";
import { createHash } from "node:crypto";
import { sql } from "kysely";
import { codeOf, StopJobError } from "../../errors.ts";
import type { Cell } from "../../schemas/convert.ts";
import type { FeedCommit } from "./feed-commit.ts";
import type {
  AddedMembers,
  MemberCounts,
  MemberSweep,
  ProvenSpan,
  SeenMember,
  SettledMembers,
  SweepOptions,
} from "./segments.ts";
import type { RunRef } from "../lookup.ts";
import { copyRows } from "../db/copy.ts";
import { commitFeedWith, copyMany, dropErased, type FeedPlace } from "./feeds.ts";
import { tableText, type SchemaNames, stateTableId, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";

const memberColumns = [
  "segment_id",
  "service_pid",
  "first_added_at",
  "is_member",
  "first_seen_at",
  "removed_seen_at",
  "_extra",
];
const historyColumns = ["segment_id", "service_pid", "valid_from", "valid_to", "valid_from_basis"];
/** Values of `first_added_at` that a settlement tells. */
const MAX_PENDING_AT = 1000;

/** Begins the name of every table of members that a sweep has seen. */
export const SWEEP_TABLES = "segment_seen_";

/** What is known of a segment. */
export async function memberCounts(db: Db, segmentId: string): Promise<MemberCounts> {
  return db.transaction((session) => countMembers(session, db.names, segmentId));
}

async function countMembers(session: Session, names: SchemaNames, segmentId: string): Promise<MemberCounts> {
  const [counts] = await session.rows<MemberCounts>(sql`
    SELECT count(*) FILTER (WHERE is_member) AS living, count(*) AS known
    FROM ${tableId(names, "segment_member")} WHERE segment_id = ${segmentId}`);
  return counts ?? { living: 0, known: 0 };
}

/** When all pages of a segment were last read with nothing left unproven; null for never. */
async function lastCompleteSync(
  session: Session,
  names: SchemaNames,
  segmentId: string,
): Promise<string | null> {
  const [found] = await session.rows<{ at: string | null }>(sql`
    SELECT last_complete_sync_at AS at FROM ${tableId(names, "segment")} WHERE segment_id = ${segmentId}`);
  return found?.at ?? null;
}

const NOBODY = { added: 0, suppressed: 0 };

/** Where a sweep is made. */
interface Sweep extends SweepOptions {
  readonly db: Db;
  /** Table of the PIDs seen, in the data schema: unlogged, for this sweep alone. */
  readonly seen: string;
}

/** Begins a sweep. */
export async function openSweep(db: Db, run: RunRef, options: SweepOptions): Promise<MemberSweep> {
  const { names } = db;
  const hash = createHash("sha256").update(JSON.stringify([run.job, options.segmentId]));
  const seen = `${SWEEP_TABLES}${hash.digest("hex").slice(0, 24)}`;
  const table = stateTableId(names, seen);
  const { counts, completeAt } = await db.transaction(run, async (session) => {
    await session.change(sql`DROP TABLE IF EXISTS ${table}`);
    await session.change(sql`CREATE UNLOGGED TABLE ${table} (service_pid text NOT NULL)`);
    return {
      counts: await countMembers(session, names, options.segmentId),
      completeAt: options.completeAt ?? (await lastCompleteSync(session, names, options.segmentId)),
    };
  });
  const isFirst = counts.known === 0;
  // `first_added_at` alone says since when people are members only where nobody has looked before.
  const isNew = isFirst && completeAt === null;
  const sweep: Sweep = { ...options, completeAt, db, seen };
  /** Members noted as seen, by commit: one that is tried again tells the same once more. */
  const noted = new Map<string, number>();
  return {
    isFirst,
    async add(commit, members) {
      const added = isNew ? await addNew(sweep, commit, members) : null;
      if (added) return added;
      const merged = await addSeen(sweep, commit, members);
      noted.set(commit.commitId, merged?.noted ?? 0);
      return merged ?? { ...NOBODY, rowsWritten: 0 };
    },
    settle: (commit, spans) =>
      settle(sweep, commit, spans, { isFirst, noted: [...noted.values()].reduce((sum, n) => sum + n, 0) }),
    close: () =>
      db.transaction(run, async (session) => {
        await session.change(sql`DROP TABLE IF EXISTS ${table}`);
      }),
  };
}

/** The rows of people of whom nothing was known. */
function newRows(segmentId: string, { servicePid, firstAddedAt, seenAt, extra }: SeenMember) {
  const member: Cell[] = [segmentId, servicePid, firstAddedAt, "true", seenAt, null, extra];
  const basis = firstAddedAt === null ? "observed" : "vendor";
  const history: Cell[] = [segmentId, servicePid, firstAddedAt ?? seenAt, null, basis];
  return { member, history };
}

/** COPYs people straight into the final tables; null where that doesn't go, since some are there already or were erased. */
async function addNew(
  sweep: Sweep,
  commit: FeedCommit,
  members: readonly SeenMember[],
): Promise<AddedMembers | null> {
  const { db, segmentId } = sweep;
  try {
    const done = await commitFeedWith(db, commit, async (place) => {
      const { session, names, suppression } = place;
      if (suppression.key !== null) throw new NotNewError();
      const rows = members.map((member) => newRows(segmentId, member));
      for (const [table, columns, cells] of [
        ["segment_member", memberColumns, rows.map(({ member }) => member)],
        ["segment_membership_history", historyColumns, rows.map(({ history }) => history)],
      ] as const) {
        // A conflict is not worth trying again: it would come again.
        await copyRows(session, tableText(names, table), columns, cells).catch((error: unknown) => {
          throw codeOf(error) === "23505" ? new NotNewError() : error;
        });
        place.touch(table, cells.length);
      }
      return { added: members.length, suppressed: 0 };
    });
    return { ...(done.work ?? NOBODY), rowsWritten: done.rowsWritten };
  } catch (error) {
    if (error instanceof NotNewError) return null;
    throw error;
  }
}

/** Some of the rows can't be COPYed: they have to be merged. */
class NotNewError extends Error {}

/** Merges members into what is known, and notes that they were seen. */
async function addSeen(
  sweep: Sweep,
  commit: FeedCommit,
  members: readonly SeenMember[],
): Promise<(AddedMembers & { readonly noted: number }) | null> {
  const { db, segmentId, completeAt } = sweep;
  const { work, rowsWritten } = await commitFeedWith(db, commit, async (place) => {
    const { session, names, runId } = place;
    await stageMembers(place, members);
    const suppressed = await dropErased(place, "stage_member");
    const noted = await session.change(sql`
      INSERT INTO ${stateTableId(names, sweep.seen)} SELECT service_pid FROM pg_temp.stage_member`);
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
    place.touch("segment_member", written);
    // An interval that ended as early as the new one begins is the same one: it goes on.
    const opened = await session.change(sql`
      INSERT INTO ${history} AS h (segment_id, service_pid, valid_from, valid_to, valid_from_basis, _synced_at, _run_id)
      SELECT ${segmentId}, service_pid,
        CASE WHEN is_vendor THEN first_added_at ELSE greatest(seen_at, last_valid_to) END, NULL,
        CASE WHEN is_vendor THEN 'vendor' ELSE 'observed' END, now(), ${runId}
      FROM (
        SELECT c.*, l.last_valid_to, c.is_new AND c.first_added_at IS NOT NULL AND l.last_valid_to IS NULL
          AND coalesce(c.first_added_at >= ${completeAt}::timestamptz, true) AS is_vendor
        FROM pg_temp.member_change AS c
        LEFT JOIN LATERAL (
          SELECT max(valid_to) AS last_valid_to FROM ${history} AS h
          WHERE h.segment_id = ${segmentId} AND h.service_pid = c.service_pid) AS l ON true
        WHERE c.is_added) AS added
      ORDER BY service_pid
      ON CONFLICT (segment_id, service_pid, valid_from) DO UPDATE SET valid_to = NULL, _synced_at = excluded._synced_at,
        _run_id = excluded._run_id`);
    place.touch("segment_membership_history", opened);
    return { added: opened, suppressed, noted };
  });
  return work && { ...work, rowsWritten };
}

/** Makes a temporary table of members. */
async function stageMembers({ session }: FeedPlace, members: readonly SeenMember[]): Promise<void> {
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
  await session.change(sql`ANALYZE pg_temp.stage_member`);
}

const NOTHING = { removed: 0, pending: 0, pendingAt: [] as readonly Cell[] };

async function settle(
  sweep: Sweep,
  commit: FeedCommit,
  spans: readonly ProvenSpan[],
  state: { readonly isFirst: boolean; readonly noted: number },
): Promise<SettledMembers> {
  const { db, segmentId } = sweep;
  const done = await commitFeedWith(db, commit, async (place) => {
    const { session, names, runId } = place;
    // Everybody who is known was seen in this very sweep.
    if (state.isFirst) return NOTHING;
    await requireSeen(session, names, sweep, commit.run.job, state.noted);
    const member = tableId(names, "segment_member");
    const history = tableId(names, "segment_membership_history");
    await session.change(sql`ANALYZE ${stateTableId(names, sweep.seen)}`);
    await session.change(sql`
      CREATE TEMP TABLE nominated ON COMMIT DROP AS
      SELECT m.service_pid, m.first_added_at, greatest(m.first_seen_at, (
        SELECT max(h.valid_from) FROM ${history} AS h
        WHERE h.segment_id = ${segmentId} AND h.service_pid = m.service_pid AND h.valid_to IS NULL
          AND h.valid_from_basis = 'observed')) AS known_since
      FROM ${member} AS m
      WHERE m.segment_id = ${segmentId} AND m.is_member
        AND NOT EXISTS (SELECT FROM ${stateTableId(names, sweep.seen)} AS s WHERE s.service_pid = m.service_pid)`);
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
    place.touch("segment_member", removed);
    const closed = await session.change(sql`
      UPDATE ${history} AS h
      SET valid_to = greatest(h.valid_from, g.seen_at), _synced_at = now(), _run_id = ${runId}
      FROM pg_temp.gone AS g
      WHERE h.segment_id = ${segmentId} AND h.service_pid = g.service_pid AND h.valid_to IS NULL`);
    place.touch("segment_membership_history", closed);
    const pending = await session.rows<{ at: Cell; members: number }>(sql`
      SELECT first_added_at AS at, count(*) AS members FROM pg_temp.nominated AS n
      WHERE NOT EXISTS (SELECT FROM pg_temp.gone AS g WHERE g.service_pid = n.service_pid)
      GROUP BY 1 ORDER BY 1 DESC NULLS LAST`);
    await session.change(sql`DROP TABLE pg_temp.nominated, pg_temp.gone`);
    return {
      removed,
      pending: pending.reduce((sum, { members }) => sum + members, 0),
      pendingAt: pending.slice(0, MAX_PENDING_AT).map(({ at }) => at),
    };
  });
  return { ...(done.work ?? NOTHING), rowsWritten: done.rowsWritten };
}

/** The list of who was seen is unlogged: a crash of the server empties it, and then everybody would seem to be gone. */
async function requireSeen(
  session: Session,
  names: SchemaNames,
  sweep: Sweep,
  job: string,
  noted: number,
): Promise<void> {
  const [seen] = await session.rows<{ count: number }>(
    sql`SELECT count(*) AS count FROM ${stateTableId(names, sweep.seen)}`,
  );
  if (seen?.count === noted) return;
  throw new StopJobError(
    "work_table_lost",
    `${job}: the database has crashed meanwhile, and with it went the list of members that this run has seen. Nobody was ` +
      "marked as removed for it; run the job again.",
  );
}
