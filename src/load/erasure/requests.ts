import { type RawBuilder, sql } from "kysely";
import { randomUUID } from "node:crypto";
import type { Db } from "../db/db.ts";
import { NOW, type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { removeLookupState, stageFound } from "./find.ts";
import { beginErasure, readErasureKey } from "./key.ts";
import {
  type FoundPeople,
  stagedErasedAt,
  stagedSubjects,
  stageSubjects,
  storeSubjects,
} from "./subjects.ts";
import type { Identifiers } from "../inputs/input.ts";
import { laggingDestinations } from "../publication/registration.ts";
import type { RunRef } from "../runs/fence.ts";

/** One reason why an erasure is pending. */
export interface Waiting {
  readonly kind: "run" | "destination" | "received_answers";
  /** Name of the job or destination. */
  readonly name: string;
  /** Machine and folder of received answers; absent if they are here. */
  readonly host?: string;
  readonly folder?: string;
}

/**
 * Commits the request of an erasure with its subjects: selections, reservations and loads that start later skip them.
 * Loads in progress may still store them, so their rows are removed again when those runs have ended.
 */
export function requestErasure(db: Db, found: FoundPeople): Promise<RequestedErasure> {
  return db.transaction((session) => requestInRun(session, db, found));
}

/** Commits the request with a run's transaction. */
export async function requestInRun(session: Session, db: Db, found: FoundPeople): Promise<RequestedErasure> {
  const id = randomUUID();
  const key = await beginErasure(session, db.readErasureSecret, id);
  await stageFound(session, found);
  await removeLookupState(session);
  await storeSubjects(session, key, id);
  const request = { people: await stagedSubjects(session), sparesOthers: found.sparesOthers };
  await session.change(sql`
    INSERT INTO ${session.table("erasure_request")}
      (request_id, erasure_id, people, waits_for, is_final, requested_at, _synced_at, _run_id)
    SELECT gen_random_uuid(), ${id}::uuid, ${JSON.stringify(request)}::jsonb,
      coalesce((SELECT jsonb_agg(jsonb_build_object('job', job, 'shard', shard, 'epoch', epoch))
        FROM ${session.table("job_lock")} WHERE released_at IS NULL), '[]'),
      false, now(), now(), ${id}`);
  return { erasureId: id, pids: request.people.pids };
}

export interface RequestedErasure {
  readonly erasureId: string;
  /** All PIDs, those found since the plan included. */
  readonly pids: readonly string[];
}

/** Instant by which all the named were erased; null if one of them wasn't. */
export async function readErasedAt(db: Db, named: Identifiers): Promise<string | null> {
  return db.preview(async (session) => {
    const key = await readErasureKey(session, db.readErasureSecret);
    if (key === null) return null;
    await stageSubjects(session, named);
    return stagedErasedAt(session, key);
  });
}

/** Throws a FixConfigurationError unless the key is the one used for earlier erasures. */
export async function checkErasureKey(db: Db): Promise<void> {
  await db.transaction((session) => readErasureKey(session, db.readErasureSecret));
}

/** Ids of pending erasures, oldest first. */
export function readOpenErasures(db: Db): Promise<readonly string[]> {
  const requests = db.query.selectFrom("state.erasure_request").select("erasure_id").groupBy("erasure_id");
  return db.pluck(requests.orderBy(sql`min(requested_at), erasure_id`));
}

/** A request whose rows aren't removed finally. */
export interface OpenRequest {
  readonly requestId: string;
  readonly people: Identifiers;
  /** True if PIDs of other input rows are spared. */
  readonly sparesOthers: boolean;
  /** True if every run in progress at the request has ended: the next removal is the final one. */
  readonly isLast: boolean;
}

/** Reads the open requests of an erasure, one unless an earlier version made it; locks them until the end of the transaction. */
export async function readRequests(session: Session, id: string): Promise<readonly OpenRequest[]> {
  return session.rows<OpenRequest>(sql`
    SELECT request_id::text AS "requestId", people -> 'people' AS people,
      (people ->> 'sparesOthers')::boolean AS "sparesOthers", NOT EXISTS (${heldLocks(session.names)}) AS "isLast"
    FROM ${session.table("erasure_request")} AS q WHERE erasure_id = ${id}::uuid AND NOT is_final
    ORDER BY requested_at, request_id FOR UPDATE`);
}

/** Query for the locks that a request waits for: of runs that have neither ended nor been taken over. */
function heldLocks(names: SchemaNames): RawBuilder<unknown> {
  return sql`SELECT l.job FROM jsonb_to_recordset(q.waits_for) AS w(job text, shard text, epoch bigint)
    JOIN ${tableId(names, "job_lock")} AS l ON l.job = w.job AND l.shard = w.shard AND l.epoch = w.epoch
    WHERE l.released_at IS NULL`;
}

/**
 * Completes the erasures that have nothing left to wait for; returns the reasons of each. Null where nothing is left, but a run has ended
 * since the last removal: the rows must be removed again first. All are judged before any is completed, because completing one is
 * itself a change to publish.
 * @param here ID of this disk, whose answers the caller has looked for; null without one
 */
export function completeErasures(
  db: Db,
  ids: readonly string[],
  here: string | null,
): Promise<ReadonlyMap<string, readonly Waiting[] | null>> {
  return db.transaction(async (session) => {
    const requests = session.table("erasure_request");
    // Read first: what a final removal left to publish and an ended run left on disk is seen by the statements after it.
    const open = await session.rows<{ id: string; runs: readonly string[] }>(sql`
      SELECT q.erasure_id::text AS id, coalesce(array_agg(DISTINCT h.job ORDER BY h.job) FILTER (WHERE h.job IS NOT NULL), '{}') AS runs
      FROM ${requests} AS q LEFT JOIN LATERAL (${heldLocks(session.names)}) AS h ON true
      WHERE q.erasure_id = ANY(${[...ids]}::uuid[]) AND NOT q.is_final GROUP BY q.erasure_id`);
    const shared: readonly Waiting[] = [
      ...(await answersElsewhere(session, here)),
      ...(await laggingDestinations(session)).map((name): Waiting => ({ kind: "destination", name })),
    ];
    const reasons = new Map<string, readonly Waiting[] | null>();
    for (const id of ids) {
      const runs = open.find((one) => one.id === id)?.runs;
      const waiting = [...(runs ?? []).map((name): Waiting => ({ kind: "run", name })), ...shared];
      reasons.set(id, waiting.length === 0 && runs ? null : waiting);
    }
    const completed = ids.filter((id) => reasons.get(id)?.length === 0);
    const { query } = session;
    const isCompleted = sql<boolean>`erasure_id = ANY(${completed}::uuid[])`;
    await session.change(query.deleteFrom("state.erasure_request").where(isCompleted));
    const subjects = query.updateTable("ops.erasure_subject").set({ completed_at: NOW, _synced_at: NOW });
    await session.change(subjects.where(isCompleted).where("completed_at", "is", null));
    return reasons;
  });
}

/** A spool's folder on one machine. */
interface SpoolPlace {
  /** Random ID of the disk: host names change, and several machines may mount one disk. */
  readonly disk: string;
  readonly host: string;
  readonly folder: string;
}

/** A job's row of a disk, with the lock under which it was last used. */
type PlaceRow = Pick<RunRef, "job" | "shard" | "epoch">;

/** Condition: the run that uses the place `p` holds its lock. */
const isInUse = (names: SchemaNames, also = sql`true`) => sql`EXISTS (
  SELECT FROM ${tableId(names, "job_lock")} AS l
  WHERE (l.job, l.shard, l.epoch) = (p.job, p.shard, p.epoch) AND l.released_at IS NULL AND ${also})`;

/** Records that a run may receive answers on a disk. */
export async function useSpoolPlace(db: Db, run: RunRef, place: SpoolPlace): Promise<void> {
  const { job, shard, epoch, runId } = run;
  const used = { epoch, _synced_at: NOW, _run_id: runId };
  const first = { disk_id: place.disk, job, shard, host: place.host, folder: place.folder, since: NOW };
  const insert = db.query
    .insertInto("state.spool_place")
    .values({ ...first, ...used })
    .onConflict((clash) => clash.columns(["disk_id", "job", "shard"]).doUpdateSet(used));
  await db.transaction(run, (session) => session.change(insert));
}

/** Records that a run left no answer on a disk. */
export async function leaveSpoolPlace(db: Db, run: RunRef, disk: string): Promise<void> {
  const { job, shard, epoch } = run;
  const place = db.query.deleteFrom("state.spool_place");
  const left = place.where((row) => row.and({ disk_id: disk, job, shard, epoch }));
  await db.transaction(run, (session) => session.change(left));
}

/** Places of a disk that no run uses. */
export function readUnusedPlaces(db: Db, disk: string): Promise<readonly PlaceRow[]> {
  const places = db.query.selectFrom("state.spool_place as p").select(["job", "shard", "epoch"]);
  return db.rows(places.where("disk_id", "=", disk).where(sql<boolean>`NOT ${isInUse(db.names)}`));
}

/** Removes places of a disk that were found empty, unless a run used one since. */
export async function removeEmptyPlaces(db: Db, disk: string, empty: readonly PlaceRow[]): Promise<void> {
  if (empty.length === 0) return;
  await db.change(sql`DELETE FROM ${db.table("spool_place")} AS p
    USING json_to_recordset(${JSON.stringify(empty)}::json) AS e(job text, shard text, epoch bigint)
    WHERE p.disk_id = ${disk} AND (p.job, p.shard, p.epoch) = (e.job, e.shard, e.epoch)`);
}

/** Removes what is recorded of a disk that is gone, by host and folder; returns the number of rows. */
export function removeLostDisk(db: Db, { host, folder }: Omit<SpoolPlace, "disk">): Promise<number> {
  return db.change(db.query.deleteFrom("state.spool_place").where((row) => row.and({ host, folder })));
}

/**
 * Answers on other disks: of jobs with calls whose outcome isn't recorded, made since the disk was last seen empty. Those of a run in
 * progress count only if the disk had some before it.
 */
function answersElsewhere(session: Session, here: string | null): Promise<readonly Waiting[]> {
  return session.rows<Waiting>(sql`
    SELECT DISTINCT 'received_answers' AS kind, p.job AS name, p.host, p.folder FROM ${session.table("spool_place")} AS p
    WHERE p.disk_id IS DISTINCT FROM ${here} AND NOT ${isInUse(session.names, sql`l.acquired_at <= p.since`)}
      AND EXISTS (SELECT FROM ${session.table("api_call")} AS c
        WHERE c.job = p.job AND c.settled_at IS NULL AND c.reserved_at >= p.since)
    ORDER BY 2, 3, 4`);
}
