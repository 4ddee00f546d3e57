import { createHash } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import type { Cell } from "../../schemas/convert.ts";
import type { FeedCommit } from "../feed-warehouse.ts";
import type {
  AddedMembers,
  MemberCounts,
  MemberSweep,
  ProvenSpan,
  SeenMember,
  SettledMembers,
  SweepOptions,
} from "../segment-warehouse.ts";
import type { RunRef } from "../warehouse.ts";
import { cellText } from "./feed-rows.ts";
import { commitFeedWith, type FeedContext, type FeedPlace, type FeedWork } from "./feeds.ts";
import { jsonRows } from "./json-rows.ts";
import { tableId } from "./names.ts";
import { NOW, type Session } from "./session.ts";
import { ownTable } from "./own-table.ts";
import { createStagingTable, dropTable, STAGING_PREFIX } from "./staging.ts";
import { suppressedText } from "./suppression.ts";
import { isDistinct, typedValue } from "./typed-value.ts";

/** Values of `first_added_at` that a settlement tells. */
const MAX_PENDING_AT = 1000;

/** What is known of a segment. */
export async function memberCounts(session: Session, segmentId: string): Promise<MemberCounts> {
  const [counts] = await session.rows<MemberCounts>(sql`
    SELECT COUNTIF(is_member) AS living, COUNT(*) AS known
    FROM ${tableId(session.names, "data", "segment_member")} WHERE segment_id = ${segmentId}`);
  return counts ?? { living: 0, known: 0 };
}

/** When all pages of a segment were last read with nothing left unproven; null for never. */
async function lastCompleteSync(session: Session, segmentId: string): Promise<string | null> {
  const [found] = await session.rows<{ at: string | null }>(sql`
    SELECT last_complete_sync_at AS at FROM ${tableId(session.names, "data", "segment")} WHERE segment_id = ${segmentId}`);
  return found?.at ?? null;
}

/** Where a sweep is made. */
interface Sweep extends SweepOptions {
  readonly context: FeedContext;
  /** Staging table of the PIDs seen, for this sweep alone; null where nobody is known who could be gone. */
  readonly seen: string | null;
}

/** Begins a sweep. */
export async function openSweep(
  context: FeedContext,
  run: RunRef,
  options: SweepOptions,
): Promise<MemberSweep> {
  const { session } = context;
  const hash = createHash("sha256").update(JSON.stringify([run.job, options.segmentId]));
  const own = await ownTable(session, run, `${STAGING_PREFIX}seen_${hash.digest("hex").slice(0, 24)}_`);
  const isFirst = (await memberCounts(session, options.segmentId)).known === 0;
  const completeAt = options.completeAt ?? (await lastCompleteSync(session, options.segmentId));
  const seen = isFirst ? null : own;
  if (seen !== null) await createStagingTable(session, seen, [{ name: "service_pid", type: "STRING" }]);
  const sweep: Sweep = { ...options, completeAt, context, seen };
  return {
    isFirst,
    add: (commit, members) => addSeen(sweep, commit, members),
    settle: (commit, spans) => settle(sweep, commit, spans),
    close: async () => {
      if (seen !== null) await dropTable(session, seen);
    },
  };
}

const ADDED = sql.raw("_etl_members");
const SEGMENT = sql.raw("_etl_segment");
const COMPLETE_AT = sql.raw("_etl_complete_at");

/** Variables: the emulator mixes up parameters of nested queries. */
function declareSweep({ segmentId, completeAt }: SweepOptions): readonly RawBuilder<unknown>[] {
  return [
    sql`${SEGMENT} STRING DEFAULT ${segmentId}`,
    sql`${COMPLETE_AT} TIMESTAMP DEFAULT CAST(${completeAt} AS TIMESTAMP)`,
  ];
}

/** Merges members into what is known, and notes that they were seen. */
async function addSeen(
  sweep: Sweep,
  commit: FeedCommit,
  members: readonly SeenMember[],
): Promise<AddedMembers> {
  const done = await commitFeedWith(sweep.context, commit, {
    rows: rowsOf(members),
    tables: ["segment_member", "segment_membership_history"],
    // New ones, known ones that change, those that are added.
    declare: [
      ...declareSweep(sweep),
      sql`${ADDED} ARRAY<INT64> DEFAULT [0, 0, 0]`,
      sql`_etl_members_suppressed INT64 DEFAULT 0`,
    ],
    statements: (place) => addStatements(place, sweep),
    outcome: "_etl_members AS members, _etl_members_suppressed AS suppressed",
    read: readAdded,
  });
  return { added: 0, suppressed: 0, ...done.work, rowsWritten: done.rowsWritten };
}

function* rowsOf(members: readonly SeenMember[]): Generator<readonly Cell[]> {
  for (const { servicePid, firstAddedAt, seenAt, extra } of members) {
    yield [servicePid, firstAddedAt, seenAt, extra];
  }
}

function readAdded(row: Record<string, unknown>): Omit<AddedMembers, "rowsWritten"> {
  // What `outcome` selects.
  const { members, suppressed } = row as { members: readonly number[]; suppressed: number };
  return { added: members[2] ?? 0, suppressed };
}

function addStatements(place: FeedPlace, { seen }: Sweep): readonly RawBuilder<unknown>[] {
  const { names, runId, suppression, count } = place;
  const member = tableId(names, "data", "segment_member");
  const history = tableId(names, "data", "segment_membership_history");
  const isErased = suppression.key === null ? null : suppressedText(names).pid(cellText(0));
  const source = sql.raw(`${place.source}${isErased === null ? "" : ` WHERE NOT (${isErased})`}`);
  const extra = typedValue("json", cellText(3));
  return [
    ...(isErased === null
      ? []
      : [sql.raw(`SET _etl_members_suppressed = (SELECT COUNT(*) FROM ${place.source} WHERE ${isErased})`)]),
    ...(seen === null
      ? []
      : [
          sql`INSERT INTO ${tableId(names, "data", seen)} (service_pid) SELECT ${sql.raw(cellText(0))} FROM ${source}`,
        ]),
    sql`CREATE TEMP TABLE member_change AS
      SELECT s.*, m.service_pid IS NULL AS is_new, IFNULL(NOT m.is_member, TRUE) AS is_added
      FROM (
        SELECT ${sql.raw(cellText(0))} AS service_pid, CAST(${sql.raw(cellText(1))} AS TIMESTAMP) AS first_added_at,
          CAST(${sql.raw(cellText(2))} AS TIMESTAMP) AS seen_at, ${sql.raw(extra)} AS extra
        FROM ${source}
        ${sql.raw(isErased === null ? "WHERE TRUE" : "")}
        QUALIFY ROW_NUMBER() OVER (PARTITION BY service_pid ORDER BY ord DESC) = 1) AS s
      LEFT JOIN (SELECT * FROM ${member} WHERE segment_id = ${SEGMENT}) AS m ON m.service_pid = s.service_pid
      WHERE m.service_pid IS NULL OR NOT m.is_member OR m.first_added_at IS DISTINCT FROM s.first_added_at
        OR ${sql.raw(isDistinct("json", "m._extra", "s.extra"))}`,
    sql`SET ${ADDED} = (SELECT [COUNTIF(is_new), COUNTIF(NOT is_new), COUNTIF(is_added)] FROM member_change)`,
    count("segment_member", "_etl_members[OFFSET(0)] + _etl_members[OFFSET(1)]"),
    count("segment_membership_history", "_etl_members[OFFSET(2)]"),
    sql`IF ${ADDED}[OFFSET(1)] > 0 THEN
      UPDATE ${member} AS m SET first_added_at = c.first_added_at, is_member = TRUE, removed_seen_at = NULL,
        _extra = c.extra, _synced_at = ${NOW}, _run_id = ${runId}
      FROM member_change AS c WHERE m.segment_id = ${SEGMENT} AND m.service_pid = c.service_pid AND NOT c.is_new; END IF`,
    sql`IF ${ADDED}[OFFSET(0)] > 0 THEN
      INSERT INTO ${member} (segment_id, service_pid, first_added_at, is_member, first_seen_at, removed_seen_at, _extra,
        _synced_at, _run_id)
      SELECT ${SEGMENT}, service_pid, first_added_at, TRUE, seen_at, NULL, extra, ${NOW}, ${runId}
      FROM member_change WHERE is_new; END IF`,
    // An interval that ended as early as the new one begins is the same one: it goes on.
    sql`IF ${ADDED}[OFFSET(2)] > 0 THEN
      CREATE TEMP TABLE member_opened AS
      SELECT service_pid, IF(is_vendor, first_added_at, GREATEST(seen_at, IFNULL(last_valid_to, seen_at))) AS valid_from,
        IF(is_vendor, 'vendor', 'observed') AS basis
      FROM (
        SELECT c.*, l.last_valid_to, c.is_new AND c.first_added_at IS NOT NULL AND l.last_valid_to IS NULL
          AND IFNULL(c.first_added_at >= ${COMPLETE_AT}, TRUE) AS is_vendor
        FROM member_change AS c
        LEFT JOIN (SELECT service_pid, MAX(valid_to) AS last_valid_to FROM ${history} WHERE segment_id = ${SEGMENT}
          GROUP BY service_pid) AS l ON l.service_pid = c.service_pid
        WHERE c.is_added);
      UPDATE ${history} AS h SET valid_to = NULL, _synced_at = ${NOW}, _run_id = ${runId}
      FROM member_opened AS o
      WHERE h.segment_id = ${SEGMENT} AND h.service_pid = o.service_pid AND h.valid_from = o.valid_from;
      INSERT INTO ${history} (segment_id, service_pid, valid_from, valid_to, valid_from_basis, _synced_at, _run_id)
      SELECT ${SEGMENT}, o.service_pid, o.valid_from, NULL, o.basis, ${NOW}, ${runId} FROM member_opened AS o
      LEFT JOIN (SELECT service_pid, valid_from FROM ${history} WHERE segment_id = ${SEGMENT}) AS h
        ON h.service_pid = o.service_pid AND h.valid_from = o.valid_from
      WHERE h.service_pid IS NULL; END IF`,
  ];
}

const NOTHING: SettledMembers = { rowsWritten: 0, removed: 0, pending: 0, pendingAt: [] };

/** Records the removals that are proven. */
async function settle(
  sweep: Sweep,
  commit: FeedCommit,
  spans: readonly ProvenSpan[],
): Promise<SettledMembers> {
  const { context, seen } = sweep;
  const work: FeedWork<Omit<SettledMembers, "rowsWritten">> = {
    rows: [],
    tables: ["segment_member", "segment_membership_history"],
    declare: [
      ...declareSweep(sweep),
      sql`_etl_removed INT64 DEFAULT 0`,
      // All of them, and those without first_added_at.
      sql`_etl_pending ARRAY<INT64> DEFAULT [0, 0]`,
      sql`_etl_pending_at ARRAY<TIMESTAMP> DEFAULT []`,
    ],
    // Everybody who is known was seen in the sweep where nobody was known before.
    statements: (place) => (seen === null ? [] : settleStatements(place, seen, spans)),
    outcome: "_etl_removed AS removed, _etl_pending AS pending, _etl_pending_at AS pending_at",
    read: readSettled,
  };
  const done = await commitFeedWith(context, commit, work);
  return { ...NOTHING, ...done.work, rowsWritten: done.rowsWritten };
}

function readSettled(row: Record<string, unknown>): Omit<SettledMembers, "rowsWritten"> {
  // What `outcome` selects.
  const found = row as { removed: number; pending: readonly number[]; pending_at: readonly string[] };
  const [pending = 0, undated = 0] = found.pending;
  const dated: readonly Cell[] = found.pending_at;
  const pendingAt = undated > 0 ? [...dated, null] : dated;
  return { removed: found.removed, pending, pendingAt: pendingAt.slice(0, MAX_PENDING_AT) };
}

function settleStatements(
  { names, runId, count }: FeedPlace,
  seen: string,
  spans: readonly ProvenSpan[],
): readonly RawBuilder<unknown>[] {
  const member = tableId(names, "data", "segment_member");
  const history = tableId(names, "data", "segment_membership_history");
  const left = sql`member_nominated AS n WHERE n.service_pid NOT IN (SELECT g.service_pid FROM member_gone AS g)`;
  return [
    sql`CREATE TEMP TABLE member_nominated AS
      SELECT m.service_pid, m.first_added_at, GREATEST(m.first_seen_at, IFNULL(h.valid_from, m.first_seen_at)) AS known_since
      FROM ${member} AS m
      LEFT JOIN (SELECT DISTINCT service_pid FROM ${tableId(names, "data", seen)}) AS s ON s.service_pid = m.service_pid
      LEFT JOIN (
        SELECT service_pid, MAX(valid_from) AS valid_from FROM ${history}
        WHERE segment_id = ${SEGMENT} AND valid_to IS NULL AND valid_from_basis = 'observed'
        GROUP BY service_pid) AS h ON h.service_pid = m.service_pid
      WHERE m.segment_id = ${SEGMENT} AND m.is_member AND s.service_pid IS NULL`,
    sql`CREATE TEMP TABLE member_gone AS
      SELECT n.service_pid, MIN(p.seenAt) AS seen_at FROM member_nominated AS n
      JOIN (${jsonRows(sql`${JSON.stringify(spans)}`, { after: "TIMESTAMP", before: "TIMESTAMP", seenAt: "TIMESTAMP" })}) AS p
        ON (p.after IS NULL OR n.first_added_at > p.after) AND (p.before IS NULL OR n.first_added_at < p.before)
          AND n.known_since <= p.seenAt
      GROUP BY n.service_pid`,
    sql`SET _etl_removed = (SELECT COUNT(*) FROM member_gone)`,
    sql`IF _etl_removed > 0 THEN
      UPDATE ${member} AS m SET is_member = FALSE, removed_seen_at = g.seen_at, _synced_at = ${NOW}, _run_id = ${runId}
      FROM member_gone AS g WHERE m.segment_id = ${SEGMENT} AND m.service_pid = g.service_pid;
      ${count("segment_member")};
      UPDATE ${history} AS h
      SET valid_to = GREATEST(h.valid_from, g.seen_at), _synced_at = ${NOW}, _run_id = ${runId}
      FROM member_gone AS g
      WHERE h.segment_id = ${SEGMENT} AND h.service_pid = g.service_pid AND h.valid_to IS NULL;
      ${count("segment_membership_history")}; END IF`,
    sql`SET _etl_pending = (SELECT [COUNT(*), COUNTIF(n.first_added_at IS NULL)] FROM ${left})`,
    sql`SET _etl_pending_at = ARRAY(SELECT DISTINCT n.first_added_at FROM ${left} AND n.first_added_at IS NOT NULL
      ORDER BY 1 DESC LIMIT ${sql.raw(String(MAX_PENDING_AT))})`,
  ];
}
