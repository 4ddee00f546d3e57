import { type RawBuilder, sql } from "kysely";
import type { Db } from "../db/db.ts";
import { NOW } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { readErasureKey } from "../erasure/key.ts";
import { erasedSql } from "../erasure/subjects.ts";
import { findErasedPids, removeErasedRows } from "../write/erased.ts";
import { stageKeys } from "../inputs/read.ts";
import { BLANKS } from "../inputs/columns.ts";
import type { InputSource } from "../inputs/input.ts";
import type { RunRef } from "../runs/fence.ts";
import { listMembers } from "./members.ts";
import type { Writing } from "../write/upsert.ts";

interface GivenRows {
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

export interface PushCounts {
  readonly toAdd: number;
  /** Own members that the query no longer returns. */
  readonly toRemove: number;
  /** Members that the job added. */
  readonly own: number;
  /** PIDs of calls without an answer; the next reading of the segment resolves them. */
  readonly unknown: number;
}

export type PushChange = "add" | "remove";

const stateOf = (place: Pick<Db, "table">) => place.table("segment_push_member");
const ofSegment = ({ job }: Pick<RunRef, "job">, segmentId: string) =>
  sql<boolean>`p.job = ${job} AND p.segment_id = ${segmentId}`;
const isDue = {
  add: sql<boolean>`p.is_wanted AND p.state = 'absent'`,
  remove: sql<boolean>`NOT p.is_wanted AND p.is_own AND p.state = 'member'`,
};

/** Deletes the rows of people that the query doesn't return and the job has not added. Keeps members in doubt. */
async function removeOthers(session: Session, run: RunRef, segmentId: string): Promise<void> {
  const others = session.query.deleteFrom("state.segment_push_member as p").where(ofSegment(run, segmentId));
  const isOthers = sql<boolean>`NOT p.is_wanted AND p.state <> 'unknown' AND NOT coalesce(p.is_own, true)`;
  await session.change(others.where(isOthers));
}

/** Creates the temporary table `push_wanted` with the PIDs that the query returns. */
async function stageWanted(db: Db, session: Session, source: InputSource): Promise<GivenRows> {
  await stageKeys(db, session, source);
  await session.change(sql`
    CREATE TEMP TABLE push_wanted ON COMMIT DROP AS
    SELECT DISTINCT source_key AS service_pid FROM pg_temp.key_row WHERE btrim(source_key, ${BLANKS}) <> ''`);
  const { read, missing, distinct } = await session.one<Record<"read" | "missing" | "distinct", number>>(sql`
    SELECT count(*) AS read, count(*) FILTER (WHERE coalesce(btrim(source_key, ${BLANKS}), '') = '') AS missing,
      (SELECT count(*) FROM pg_temp.push_wanted) AS distinct
    FROM pg_temp.key_row`);
  const key = await readErasureKey(session, db.readErasureSecret);
  const wanted = { stage: "pg_temp.push_wanted", table: "segment_push_member", columns: ["service_pid"] };
  const suppressed = await removeErasedRows(session, key, wanted);
  await session.change(sql`ANALYZE pg_temp.push_wanted`);
  return { read, missing, duplicate: read - missing - distinct, suppressed, wanted: distinct - suppressed };
}

/** Returns what {@link readWanted} would find, and the PIDs to add and to remove as far as they are known without a reading. */
export function planPush(
  db: Db,
  run: Pick<RunRef, "job">,
  segmentId: string | null,
  source: InputSource,
): Promise<GivenRows & Pick<PushCounts, "toAdd" | "toRemove" | "own">> {
  return db.transaction(async (session) => {
    const given = await stageWanted(db, session, source);
    const { known, toRemove, own } = await session.one<Record<"known" | "toRemove" | "own", number>>(sql`
      SELECT count(*) FILTER (WHERE w.service_pid IS NOT NULL AND p.state IN ('member', 'invalid')) AS known,
        count(*) FILTER (WHERE w.service_pid IS NULL AND p.is_own AND p.state = 'member') AS "toRemove",
        count(*) FILTER (WHERE p.is_own AND p.state = 'member') AS own
      FROM ${stateOf(db)} AS p LEFT JOIN pg_temp.push_wanted AS w USING (service_pid)
      WHERE ${ofSegment(run, segmentId ?? "")}`);
    return { ...given, toAdd: given.wanted - known, toRemove, own };
  });
}

/** Reads the query and records who should be a member. */
export async function readWanted(
  db: Db,
  run: RunRef,
  segmentId: string,
  source: InputSource,
): Promise<GivenRows> {
  const state = stateOf(db);
  return db.transaction(run, async (session) => {
    const given = await stageWanted(db, session, source);
    await session.change(sql`
      INSERT INTO ${state} (job, segment_id, service_pid, is_wanted, state, is_own, run_id, _synced_at)
      SELECT ${run.job}, ${segmentId}, w.service_pid, true, 'absent', false, ${run.runId}, now()
      FROM pg_temp.push_wanted AS w
      WHERE NOT EXISTS (SELECT FROM ${state} AS p WHERE ${ofSegment(run, segmentId)} AND p.service_pid = w.service_pid)
      ORDER BY w.service_pid`);
    await session.change(sql`
      UPDATE ${state} AS p SET is_wanted = NOT p.is_wanted, run_id = ${run.runId}, _synced_at = now()
      WHERE ${ofSegment(run, segmentId)}
        AND p.is_wanted <> EXISTS (SELECT FROM pg_temp.push_wanted AS w WHERE w.service_pid = p.service_pid)`);
    await removeOthers(session, run, segmentId);
    return given;
  });
}

/** Counts the PIDs left to add and remove. */
export function countPush(db: Db, run: RunRef, segmentId: string): Promise<PushCounts> {
  return db.one<PushCounts>(sql`
    SELECT count(*) FILTER (WHERE ${isDue.add}) AS "toAdd", count(*) FILTER (WHERE ${isDue.remove}) AS "toRemove",
      count(*) FILTER (WHERE p.is_own AND p.state = 'member') AS own,
      count(*) FILTER (WHERE p.state = 'unknown') AS unknown
    FROM ${stateOf(db)} AS p WHERE ${ofSegment(run, segmentId)}`);
}

/** Records the PIDs listed on a page. Returns how many were not on an earlier page of this reading. */
export function noteListedPids(
  db: Db,
  run: RunRef,
  segmentId: string,
  pids: readonly string[],
): Promise<number> {
  return db.transaction(run, async (session) => {
    const key = await readErasureKey(session, db.readErasureSecret);
    const erased = await findErasedPids(session, key, pids);
    const kept = pids.filter((pid) => !erased.has(pid));
    const listed = sql`SELECT service_pid FROM unnest(${kept}::text[]) AS u(service_pid)`;
    return (await listMembers(session, run, segmentId, listed)) + erased.size;
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
export async function comparePush(
  writing: Writing,
  { segmentId, isComplete, retriesInvalid }: PushReading,
): Promise<void> {
  const { session, run } = writing;
  const stamps = { run_id: run.runId, _synced_at: NOW };
  const pushed = session.query.updateTable("state.segment_push_member as p").where(ofSegment(run, segmentId));
  const isListed = (pid: RawBuilder<unknown>) => sql<boolean>`EXISTS (
    SELECT FROM ${session.table("segment_listed")} AS l
    WHERE l.job = ${run.job} AND l.segment_id = ${segmentId} AND l.service_pid = ${pid})`;
  await session.change(sql`ANALYZE ${session.table("segment_listed")}`);
  const found = pushed.where("state", "<>", "member").where(isListed(sql`p.service_pid`));
  const present = await session.change(found.set({ state: "member", ...stamps }));
  const wasMember = isComplete ? sql`p.state = 'member'` : sql`false`;
  const wasInvalid = retriesInvalid ? sql`p.state = 'invalid'` : sql`false`;
  const lost = pushed.where(sql<boolean>`(p.state = 'unknown' OR ${wasMember} OR ${wasInvalid})
    AND NOT ${isListed(sql`p.service_pid`)}`);
  const absent = await session.change(lost.set({ state: "absent", is_own: false, ...stamps }));
  writing.touch("segment_push_member", present + absent);
  await resolveRejects(writing, isListed(sql`r.source_key`));
  await removeOthers(session, run, segmentId);
}

/**
 * Takes the next PIDs to add or remove and marks them as unknown before the call. People being added stay in doubt until
 * the answer. Omits erased people. The next batch starts after `last`; null if nothing is left.
 */
export function takeBatch(
  db: Db,
  run: RunRef,
  segmentId: string,
  { change, after, limit }: { readonly change: PushChange; readonly after: string; readonly limit: number },
) {
  const due = db.query
    .selectFrom("state.segment_push_member as p")
    .select("service_pid")
    .where(ofSegment(run, segmentId))
    .where("service_pid", ">", after)
    .where(isDue[change]);
  return db.transaction(run, async (session) => {
    const found = await session.pluck(due.orderBy("service_pid").limit(limit));
    const key = await readErasureKey(session, db.readErasureSecret);
    const erased = await findErasedPids(session, key, found);
    const pids = found.filter((pid) => !erased.has(pid));
    await session.change(sql`
      UPDATE ${stateOf(db)} AS p SET state = 'unknown', is_own = ${change === "add" ? sql`NULL` : sql`p.is_own`},
        run_id = ${run.runId}, _synced_at = now()
      WHERE ${ofSegment(run, segmentId)} AND p.service_pid = ANY(${pids}::text[])`);
    return { pids, last: found.at(-1) ?? null };
  });
}

/** Reverts {@link takeBatch} for a rejected call. */
export async function returnBatch(
  db: Db,
  run: RunRef,
  segmentId: string,
  { change, pids }: { readonly change: PushChange; readonly pids: readonly string[] },
): Promise<void> {
  const before = { state: change === "add" ? "absent" : "member", is_own: change === "remove" };
  const taken = db.query
    .updateTable("state.segment_push_member as p")
    .set({ ...before, run_id: run.runId, _synced_at: NOW })
    .where(ofSegment(run, segmentId))
    .where("state", "=", "unknown")
    .where(sql<boolean>`p.service_pid = ANY(${[...pids]}::text[])`);
  await db.transaction(run, (session) => session.change(taken));
}

/** Resolves the rejects of PIDs that the service now accepts. */
async function resolveRejects(writing: Writing, isKnown: RawBuilder<unknown>): Promise<void> {
  const { job } = writing.run;
  const resolved = await writing.session.change(sql`
    UPDATE ${writing.session.table("reject")} AS r SET resolved_at = now(), _synced_at = now()
    WHERE r.job = ${job} AND r.source = ${job} AND r.code = 'unknown_pid' AND r.resolved_at IS NULL AND ${isKnown}`);
  writing.touch("reject", resolved);
}

export interface PushAnswer {
  readonly segmentId: string;
  readonly change: PushChange;
  readonly pids: readonly string[];
  /** PIDs that the service reported as unknown. Each gets one open reject; open rejects of the others are resolved. */
  readonly invalid: readonly string[];
  /** True if all other PIDs became members by this call alone. */
  readonly isOwn: boolean;
  readonly apiRequestId: string | null;
  readonly rejectMessage: string;
}

/** Records the answer to a call. */
export async function finishBatch(writing: Writing, answer: PushAnswer): Promise<void> {
  const { session, run, erasureKey, touch } = writing;
  const { segmentId, change, isOwn, apiRequestId, rejectMessage } = answer;
  const [pids, invalid] = [sql`${[...answer.pids]}::text[]`, sql`${[...answer.invalid]}::text[]`];
  const state = stateOf(session);
  const ofBatch = sql`${ofSegment(run, segmentId)} AND p.service_pid = ANY(${pids})`;
  if (change === "remove") {
    touch("segment_push_member", await session.change(sql`DELETE FROM ${state} AS p WHERE ${ofBatch}`));
    return;
  }
  const isInvalid = sql`p.service_pid = ANY(${invalid})`;
  const written = await session.change(sql`
    UPDATE ${state} AS p SET state = CASE WHEN ${isInvalid} THEN 'invalid' ELSE 'member' END,
      is_own = CASE WHEN ${isInvalid} THEN false ELSE ${isOwn ? sql`true` : sql`NULL`} END, run_id = ${run.runId}, _synced_at = now()
    WHERE ${ofBatch}`);
  touch("segment_push_member", written);
  await resolveRejects(writing, sql`r.source_key = ANY(${pids}) AND r.source_key <> ALL(${invalid})`);
  if (answer.invalid.length === 0) return;
  const reject = session.table("reject");
  const isErased = erasureKey ? erasedSql(session.names, erasureKey).pid("pid") : sql`false`;
  const rejected = await session.change(sql`
    INSERT INTO ${reject} (reject_id, run_id, job, source, source_key, stage, code, message, details, api_request_id,
      created_at, _synced_at)
    SELECT gen_random_uuid(), ${run.runId}, ${run.job}, ${run.job}, pid, 'send', 'unknown_pid', ${rejectMessage}, NULL,
      ${apiRequestId}, now(), now()
    FROM (SELECT DISTINCT unnest(${invalid}) AS pid) AS u
    WHERE NOT (${isErased}) AND NOT EXISTS (
      SELECT FROM ${reject} AS r WHERE r.job = ${run.job} AND r.source_key = pid AND r.resolved_at IS NULL)`);
  touch("reject", rejected);
}

export interface PushedMembers {
  readonly job: string;
  readonly segmentId: string;
  /** Members that the job alone added. */
  readonly own: number;
  /** Members of calls that may have found some of them already in the segment; never removed. */
  readonly inDoubt: number;
}

export async function readPushedMembers(db: Db): Promise<readonly PushedMembers[]> {
  return db.rows<PushedMembers>(sql`
    SELECT job, segment_id AS "segmentId", count(*) FILTER (WHERE is_own) AS own,
      count(*) FILTER (WHERE is_own IS NULL) AS "inDoubt"
    FROM ${db.table("segment_push_member")} WHERE state = 'member' GROUP BY 1, 2`);
}
