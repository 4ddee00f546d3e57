import { type RawBuilder, sql } from "kysely";
import type { Db } from "../db/db.ts";
import { tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { readErasures } from "../erasure/key.ts";
import { erasedSql } from "../erasure/naming.ts";
import { findErasedPids } from "../write/erased.ts";
import type { FeedCommit } from "./feed-commit.ts";
import { stageKeys } from "../inputs/stage-keys.ts";
import { BLANKS } from "../inputs/input-fields.ts";
import type { InputSource } from "../inputs/input-source.ts";
import { commitFeedWith } from "./feeds.ts";
import { type InvalidPids, rejectInvalid, resolveRejects } from "./push-rejects.ts";
import type { RunRef } from "../runs/run-ref.ts";

/** A job's segment. */
export interface PushTarget {
  readonly job: string;
  readonly segmentId: string;
}

/** Number of rows of a query, by outcome. */
export interface GivenRows {
  readonly read: number;
  /** Rows without a PID. */
  readonly missing: number;
  /** Rows that repeat the PID of another row. */
  readonly duplicate: number;
  /** Distinct PIDs of erased people. */
  readonly suppressed: number;
  /** Distinct PIDs that should be members. */
  readonly wanted: number;
}

/** Number of PIDs of a push, by state. */
export interface PushCounts {
  readonly toAdd: number;
  /** Own members that the query no longer returns. */
  readonly toRemove: number;
  /** Members that the job added. */
  readonly own: number;
  /** PIDs of calls without an answer; the next reading of the segment resolves them. */
  readonly unknown: number;
}

/** A kind of call. */
export type PushChange = "add" | "remove";

const stateOf = (db: Pick<Db, "names">) => tableId(db.names, "segment_push_member");
const ofTarget = ({ job, segmentId }: PushTarget) => sql`p.job = ${job} AND p.segment_id = ${segmentId}`;

const isToAdd = sql`p.is_wanted AND p.state = 'absent'`;
const isToRemove = sql`NOT p.is_wanted AND p.is_own AND p.state = 'member'`;

/** Deletes the rows of people that the query doesn't return and the job has not added. Keeps members in doubt. */
async function forgetOthers(session: Session, state: RawBuilder<unknown>, target: PushTarget): Promise<void> {
  await session.change(sql`
    DELETE FROM ${state} AS p WHERE ${ofTarget(target)} AND NOT p.is_wanted AND p.state <> 'unknown' AND NOT coalesce(p.is_own, true)`);
}

/** Reads the query and records who should be a member. */
export async function readWanted(
  db: Db,
  run: RunRef,
  segmentId: string,
  source: InputSource,
): Promise<GivenRows> {
  const target = { job: run.job, segmentId };
  const state = stateOf(db);
  return db.transaction(run, async (session) => {
    await stageKeys(db, session, source);
    await session.change(sql`
      CREATE TEMP TABLE push_wanted ON COMMIT DROP AS
      SELECT DISTINCT source_key AS service_pid FROM pg_temp.key_row WHERE btrim(source_key, ${BLANKS}) <> ''`);
    const [counts] = await session.rows<{ read: number; missing: number; distinct: number }>(sql`
      SELECT count(*) AS read, count(*) FILTER (WHERE coalesce(btrim(source_key, ${BLANKS}), '') = '') AS missing,
        (SELECT count(*) FROM pg_temp.push_wanted) AS distinct
      FROM pg_temp.key_row`);
    const { read = 0, missing = 0, distinct = 0 } = counts ?? {};
    const suppressed = await dropErasedWanted(db, session);
    await session.change(sql`ANALYZE pg_temp.push_wanted`);
    await session.change(sql`
      INSERT INTO ${state} (job, segment_id, service_pid, is_wanted, state, is_own, run_id, _synced_at)
      SELECT ${run.job}, ${segmentId}, w.service_pid, true, 'absent', false, ${run.runId}, now()
      FROM pg_temp.push_wanted AS w
      WHERE NOT EXISTS (SELECT FROM ${state} AS p WHERE ${ofTarget(target)} AND p.service_pid = w.service_pid)
      ORDER BY w.service_pid`);
    await session.change(sql`
      UPDATE ${state} AS p SET is_wanted = NOT p.is_wanted, run_id = ${run.runId}, _synced_at = now()
      WHERE ${ofTarget(target)}
        AND p.is_wanted <> EXISTS (SELECT FROM pg_temp.push_wanted AS w WHERE w.service_pid = p.service_pid)`);
    await forgetOthers(session, state, target);
    return { read, missing, duplicate: read - missing - distinct, suppressed, wanted: distinct - suppressed };
  });
}

async function dropErasedWanted(db: Db, session: Session): Promise<number> {
  const { key } = await readErasures(session, db.names, db.readErasureSecret);
  if (key === null) return 0;
  return session.change(
    sql`DELETE FROM pg_temp.push_wanted WHERE ${erasedSql(db.names, key).pid("service_pid")}`,
  );
}

/** Counts the PIDs left to add and remove. */
export function countPush(db: Db, target: PushTarget): Promise<PushCounts> {
  return db.transaction(async (session) => {
    const [counts] = await session.rows<PushCounts>(sql`
      SELECT count(*) FILTER (WHERE ${isToAdd}) AS "toAdd", count(*) FILTER (WHERE ${isToRemove}) AS "toRemove",
        count(*) FILTER (WHERE p.is_own AND p.state = 'member') AS own,
        count(*) FILTER (WHERE p.state = 'unknown') AS unknown
      FROM ${stateOf(db)} AS p WHERE ${ofTarget(target)}`);
    return counts ?? { toAdd: 0, toRemove: 0, own: 0, unknown: 0 };
  });
}

/** Records the PIDs listed on a page. Returns how many were not on an earlier page of this reading. */
export function noteListedPids(
  db: Db,
  run: RunRef,
  segmentId: string,
  pids: readonly string[],
): Promise<number> {
  return db.transaction(run, async (session) => {
    const { key } = await readErasures(session, db.names, db.readErasureSecret);
    const erased = await findErasedPids(session, db.names, key, pids);
    const kept = pids.filter((pid) => !erased.has(pid));
    const noted = await session.change(sql`
      INSERT INTO ${tableId(db.names, "segment_listed")} (job, segment_id, service_pid, _synced_at, _run_id)
      SELECT DISTINCT ${run.job}, ${segmentId}, pid, now(), ${run.runId} FROM unnest(${kept}::text[]) AS u(pid) ORDER BY pid
      ON CONFLICT DO NOTHING`);
    return noted + erased.size;
  });
}

/** A reading of the segment to compare with. */
export interface PushReading {
  readonly segmentId: string;
  /** True if it listed every member: only then, absent members count as removed by others. */
  readonly isComplete: boolean;
  /** Makes PIDs that the service rejected as unknown due again. */
  readonly retriesInvalid: boolean;
}

/** Compares the listed PIDs with the stored state and resolves calls without an answer. */
export async function settlePush(
  db: Db,
  commit: FeedCommit,
  reading: PushReading,
): Promise<{ readonly rowsWritten: number }> {
  const { run } = commit;
  const { segmentId, isComplete, retriesInvalid } = reading;
  const target = { job: run.job, segmentId };
  const state = stateOf(db);
  const isListed = (pid: RawBuilder<unknown>) => sql`EXISTS (
    SELECT FROM ${tableId(db.names, "segment_listed")} AS l
    WHERE l.job = ${run.job} AND l.segment_id = ${segmentId} AND l.service_pid = ${pid})`;
  const { rowsWritten } = await commitFeedWith(db, commit, async (context) => {
    const { session } = context;
    await session.change(sql`ANALYZE ${tableId(db.names, "segment_listed")}`);
    const present = await session.change(sql`
      UPDATE ${state} AS p SET state = 'member', run_id = ${run.runId}, _synced_at = now()
      WHERE ${ofTarget(target)} AND p.state <> 'member' AND ${isListed(sql`p.service_pid`)}`);
    const wasMember = isComplete ? sql`p.state = 'member'` : sql`false`;
    const wasInvalid = retriesInvalid ? sql`p.state = 'invalid'` : sql`false`;
    const absent = await session.change(sql`
      UPDATE ${state} AS p SET state = 'absent', is_own = false, run_id = ${run.runId}, _synced_at = now()
      WHERE ${ofTarget(target)} AND (p.state = 'unknown' OR ${wasMember} OR ${wasInvalid})
        AND NOT ${isListed(sql`p.service_pid`)}`);
    context.touch("segment_push_member", present + absent);
    await resolveRejects(context, run, isListed(sql`r.source_key`));
    await forgetOthers(session, state, target);
    return null;
  });
  return { rowsWritten };
}

/** PIDs of one call. */
export interface PushBatch {
  readonly pids: readonly string[];
  /** Last PID of this batch, after which the next one starts; null if nothing is left. */
  readonly last: string | null;
}

/**
 * Takes the next PIDs to add or remove and marks them as unknown before the call. People being added stay in doubt until
 * the answer. Omits erased people.
 */
export function takeBatch(
  db: Db,
  run: RunRef,
  segmentId: string,
  { change, after, limit }: { readonly change: PushChange; readonly after: string; readonly limit: number },
): Promise<PushBatch> {
  const target = { job: run.job, segmentId };
  const state = stateOf(db);
  return db.transaction(run, async (session) => {
    const rows = await session.rows<{ pid: string }>(sql`
      SELECT p.service_pid AS pid FROM ${state} AS p
      WHERE ${ofTarget(target)} AND p.service_pid > ${after} AND ${change === "add" ? isToAdd : isToRemove}
      ORDER BY p.service_pid LIMIT ${limit}`);
    const found = rows.map(({ pid }) => pid);
    const { key } = await readErasures(session, db.names, db.readErasureSecret);
    const erased = await findErasedPids(session, db.names, key, found);
    const pids = found.filter((pid) => !erased.has(pid));
    await session.change(sql`
      UPDATE ${state} AS p SET state = 'unknown', is_own = ${change === "add" ? sql`NULL` : sql`p.is_own`},
        run_id = ${run.runId}, _synced_at = now()
      WHERE ${ofTarget(target)} AND p.service_pid = ANY(${pids}::text[])`);
    return { pids, last: found.at(-1) ?? null };
  });
}

/** Reverts {@link takeBatch} for a rejected call. */
export function returnBatch(
  db: Db,
  run: RunRef,
  segmentId: string,
  { change, pids }: { readonly change: PushChange; readonly pids: readonly string[] },
): Promise<void> {
  return db.transaction(run, async (session) => {
    await session.change(sql`
      UPDATE ${stateOf(db)} AS p SET state = ${change === "add" ? "absent" : "member"}, is_own = ${change === "remove"},
        run_id = ${run.runId}, _synced_at = now()
      WHERE ${ofTarget({ job: run.job, segmentId })} AND p.state = 'unknown' AND p.service_pid = ANY(${[...pids]}::text[])`);
  });
}

/** Answer to a call. Invalid PIDs get a reject; open rejects of the others are resolved. */
export interface PushAnswer extends InvalidPids {
  readonly segmentId: string;
  readonly change: PushChange;
  readonly pids: readonly string[];
  /** True if all other PIDs became members by this call alone. */
  readonly isOwn: boolean;
}

/** Records the answer to a call. */
export async function finishBatch(
  db: Db,
  commit: FeedCommit,
  answer: PushAnswer,
): Promise<{ readonly rowsWritten: number }> {
  const { run } = commit;
  const { segmentId, change, pids, invalid, isOwn } = answer;
  const state = stateOf(db);
  const { rowsWritten } = await commitFeedWith(db, commit, async (context) => {
    const ofBatch = sql`${ofTarget({ job: run.job, segmentId })} AND p.service_pid = ANY(${[...pids]}::text[])`;
    if (change === "remove") {
      context.touch(
        "segment_push_member",
        await context.session.change(sql`DELETE FROM ${state} AS p WHERE ${ofBatch}`),
      );
      return null;
    }
    const isInvalid = sql`p.service_pid = ANY(${[...invalid]}::text[])`;
    const written = await context.session.change(sql`
      UPDATE ${state} AS p SET state = CASE WHEN ${isInvalid} THEN 'invalid' ELSE 'member' END,
        is_own = CASE WHEN ${isInvalid} THEN false ELSE ${isOwn ? sql`true` : sql`NULL`} END, run_id = ${run.runId}, _synced_at = now()
      WHERE ${ofBatch}`);
    context.touch("segment_push_member", written);
    await resolveRejects(
      context,
      run,
      sql`r.source_key = ANY(${[...pids]}::text[]) AND r.source_key <> ALL(${[...invalid]}::text[])`,
    );
    await rejectInvalid(context, run, answer);
    return null;
  });
  return { rowsWritten };
}
