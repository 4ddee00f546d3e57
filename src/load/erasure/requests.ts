import { randomUUID } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import type { Db } from "../db/db.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { laggingDestinations } from "../publication/registration.ts";
import { noteSubjects } from "./note-subjects.ts";
import type { FoundPeople, Identifiers } from "./people.ts";
import {
  type ErasureKey,
  erasureKeyOf,
  makeErasureSecret,
  normalizedEmail,
  type Subject,
} from "./subject-hash.ts";
import { type EpochRow, keyOfEpoch, type ReadErasureSecret } from "./suppression.ts";

/** People as stored in a request. */
export type RequestedPeople = Omit<FoundPeople, "isKnown">;

/** One reason why an erasure is pending. */
export interface Waiting {
  readonly kind: "run" | "destination";
  /** Name of the job or destination. */
  readonly name: string;
}

/**
 * Commits the request of an erasure: selections, reservations and loads that start later skip these people.
 * Loads in progress may still store them, so their rows are removed again when those runs have ended.
 */
export function requestErasure(db: Db, people: RequestedPeople): Promise<string> {
  const id = randomUUID();
  return db.transaction(async (session) => {
    await request(session, db, id, people);
    return id;
  });
}

/** Commits the request with a run's transaction. */
export async function requestInRun(session: Session, db: Db, people: RequestedPeople): Promise<string> {
  const id = randomUUID();
  await request(session, db, id, people);
  return id;
}

async function request(session: Session, db: Db, id: string, people: RequestedPeople): Promise<void> {
  const { names } = db;
  const key = await raiseEpoch(session, names, db.readErasureSecret, id);
  await noteSubjects(session, names, key, { erasureId: id, runId: id }, subjectsOf(people.people));
  await addRequest(session, names, id, people);
}

/** Adds a request to an erasure: the first one, or one for identifiers found by a load. */
export async function addRequest(
  session: Session,
  names: SchemaNames,
  erasureId: string,
  people: RequestedPeople,
): Promise<void> {
  const lock = tableId(names, "job_lock");
  await session.change(sql`
    INSERT INTO ${tableId(names, "erasure_request")}
      (request_id, erasure_id, people, waits_for, is_final, requested_at, _synced_at, _run_id)
    SELECT gen_random_uuid(), ${erasureId}::uuid, ${JSON.stringify(people)}::jsonb,
      coalesce((SELECT jsonb_agg(jsonb_build_object('job', job, 'shard', shard, 'epoch', epoch)) FROM ${lock}
        WHERE released_at IS NULL), '[]'),
      false, now(), now(), ${erasureId}`);
  await session.change(sql`
    UPDATE ${tableId(names, "erasure_subject")} SET completed_at = NULL, _synced_at = now()
    WHERE erasure_id = ${erasureId}::uuid AND completed_at IS NOT NULL`);
}

/** Increments the erasure epoch, which reservations compare, and creates the key if there is none. Returns the key. */
async function raiseEpoch(
  session: Session,
  names: SchemaNames,
  readSecret: ReadErasureSecret,
  id: string,
): Promise<ErasureKey> {
  const table = tableId(names, "erasure_key");
  await session.change(sql`
    INSERT INTO ${table} (name, epoch, _synced_at, _run_id) VALUES ('erasure', 0, now(), ${id}) ON CONFLICT DO NOTHING`);
  const [row] = await session.rows<EpochRow>(sql`SELECT epoch, key_id, made_key FROM ${table} FOR UPDATE`);
  if (!row) throw new Error("The row of erasure_key is missing.");
  const configured = row.key_id === null ? await readSecret() : null;
  const made = row.key_id === null && configured === null ? makeErasureSecret() : row.made_key;
  const key = (await keyOfEpoch(row, readSecret)) ?? erasureKeyOf(configured ?? made ?? "");
  await session.change(sql`
    UPDATE ${table} SET epoch = epoch + 1, key_id = ${key.id}, made_key = ${made}, _synced_at = now(), _run_id = ${id}`);
  return key;
}

/** Converts identifiers into subjects of an erasure. */
export function subjectsOf({ pids, emails, rows }: Identifiers): readonly Subject[] {
  return [
    ...pids.map((pid): Subject => ({ kind: "pid", pid })),
    ...emails.map((email): Subject => ({ kind: "email", address: normalizedEmail(email) })),
    ...rows.map((row): Subject => ({ kind: "source_key", ...row })),
  ];
}

/** Ids of pending erasures, oldest first. */
export async function readOpenErasures(db: Db): Promise<readonly string[]> {
  return db.transaction(async (session) => {
    const rows = await session.rows<{ id: string }>(sql`
      SELECT erasure_id::text AS id FROM ${tableId(db.names, "erasure_request")}
      GROUP BY erasure_id ORDER BY min(requested_at), erasure_id`);
    return rows.map(({ id }) => id);
  });
}

/** Reads requests of an erasure that aren't final; locks them until the end of the transaction. */
export async function readRequests(
  session: Session,
  names: SchemaNames,
  id: string,
): Promise<
  readonly { readonly requestId: string; readonly people: RequestedPeople; readonly isLast: boolean }[]
> {
  return session.rows(sql`
    SELECT request_id::text AS "requestId", people, NOT ${isHeldBack(names)} AS "isLast"
    FROM ${tableId(names, "erasure_request")} AS q WHERE erasure_id = ${id}::uuid AND NOT is_final
    ORDER BY requested_at, request_id FOR UPDATE`);
}

/** Condition for a request that waits for a run which has neither ended nor been taken over. */
function isHeldBack(names: SchemaNames): RawBuilder<unknown> {
  return sql`EXISTS (${heldLocks(names)})`;
}

function heldLocks(names: SchemaNames): RawBuilder<unknown> {
  return sql`SELECT l.job FROM jsonb_to_recordset(q.waits_for) AS w(job text, shard text, epoch bigint)
    JOIN ${tableId(names, "job_lock")} AS l ON l.job = w.job AND l.shard = w.shard AND l.epoch = w.epoch
    WHERE l.released_at IS NULL`;
}

/** Records that the rows of a request were removed finally. */
export async function markFinal(
  session: Session,
  names: SchemaNames,
  requestIds: readonly string[],
): Promise<void> {
  await session.change(sql`
    UPDATE ${tableId(names, "erasure_request")} SET is_final = true, _synced_at = now()
    WHERE request_id = ANY(${[...requestIds]}::uuid[])`);
}

/**
 * Completes an erasure unless it is still pending; returns the reasons. Null if nothing is left to wait for, but a run has
 * ended since the last removal: the rows must be removed again first.
 */
export function completeErasure(db: Db, id: string): Promise<readonly Waiting[] | null> {
  const { names } = db;
  return db.transaction(async (session) => {
    const requests = tableId(names, "erasure_request");
    const runs = await session.rows<{ name: string }>(sql`
      SELECT DISTINCT h.job AS name FROM ${requests} AS q CROSS JOIN LATERAL (${heldLocks(names)}) AS h
      WHERE q.erasure_id = ${id}::uuid AND NOT q.is_final ORDER BY 1`);
    const destinations = await laggingDestinations(session, names);
    const [open] = await session.rows<{ open: number }>(sql`
      SELECT count(*) AS open FROM ${requests} WHERE erasure_id = ${id}::uuid AND NOT is_final`);
    const waiting: readonly Waiting[] = [
      ...runs.map(({ name }): Waiting => ({ kind: "run", name })),
      ...destinations.map((name): Waiting => ({ kind: "destination", name })),
    ];
    if (waiting.length > 0) return waiting;
    if ((open?.open ?? 0) > 0) return null;
    await session.change(sql`DELETE FROM ${requests} WHERE erasure_id = ${id}::uuid`);
    await session.change(sql`
      UPDATE ${tableId(names, "erasure_subject")} SET completed_at = now(), _synced_at = now()
      WHERE erasure_id = ${id}::uuid AND completed_at IS NULL`);
    return [];
  });
}
