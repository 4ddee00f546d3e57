import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { after, CLOCK } from "../db/names.ts";
import { tableLock, waitForLock } from "../db/session.ts";
import { isBeating } from "./fence.ts";

/** End of a slot: the status of its job. */
export type SlotEnd = "succeeded" | "failed" | "limited" | "skipped";

/** A slot of a job's schedule, as last recorded; `isHeld` if a live scheduler holds it. */
export type KnownSlot = Awaited<ReturnType<typeof newestSlots>>[number];

export interface SlotClaim {
  readonly job: string;
  readonly slot: string;
  /** ISO 8601, UTC. */
  readonly dueAt: string;
  readonly runId: string;
}

export interface SchedulerProcess {
  /** Unique per start of a scheduler. */
  readonly owner: string;
  readonly host: string;
  readonly pid: number;
}

/** A slot that this scheduler claimed; the run ID is that of the first claim, under which an interrupted run is resumed. */
export type GrantedSlot = Omit<SlotClaim, "dueAt">;

/** Ends of slots; a null status releases the slot. */
type SlotEnds = readonly { readonly job: string; readonly slot: string; readonly status: SlotEnd | null }[];

const heartbeat = { beatAt: "_synced_at" };
const SLOTS = "schedule_slot";

/** Records the time at which jobs were first scheduled. */
export async function watchJobs(
  db: Db,
  jobs: readonly string[],
  sinceAt: string,
  by: SchedulerProcess,
): Promise<void> {
  const table = db.table(SLOTS);
  await db.change(sql`
    INSERT INTO ${table} (job, slot, due_at, status, owner, host, pid, attempts, claimed_at, expires_at, ended_at, _synced_at)
    SELECT job, 'first', ${sinceAt}::timestamptz, 'watched', ${by.owner}, ${by.host}, ${by.pid}, 0, now(), now(), now(), now()
    FROM unnest(${jobs}::text[]) AS j(job) WHERE NOT EXISTS (SELECT FROM ${table} AS s WHERE s.job = j.job)
    ON CONFLICT DO NOTHING`);
}

/** Newest slot of each job; `lastDueAt` of the newest one that isn't open, and wasn't missed before it. */
export function newestSlots(db: Db) {
  return db.rows(
    db.query
      .selectFrom("state.schedule_slot as s")
      .distinctOn("job")
      .select(["job", "slot", "due_at as dueAt", "status", "run_id as runId", "ended_at as endedAt"])
      .select(sql<boolean>`ended_at IS NULL AND ${isBeating("s", heartbeat)}`.as("isHeld"))
      .select(
        sql<
          string | null
        >`CASE WHEN ended_at IS NOT NULL THEN due_at ELSE (SELECT max(p.due_at) FROM ${db.table(SLOTS)} AS p
          WHERE p.job = s.job AND p.due_at < s.due_at AND p.ended_at IS NOT NULL AND p.status <> 'missed') END`.as(
          "lastDueAt",
        ),
      )
      .orderBy(sql`job, due_at DESC, claimed_at DESC, slot`),
  );
}

/** Claims slots; one scheduler at a time per warehouse. */
export async function claimSlots(
  db: Db,
  claims: readonly SlotClaim[],
  by: SchedulerProcess,
  lifeMs: number,
): Promise<readonly GrantedSlot[]> {
  const column = (name: keyof SlotClaim) => claims.map((claim) => claim[name]);
  return db.transaction(async (session) => {
    const table = db.table(SLOTS);
    await waitForLock(session, {
      ...tableLock(session.names.state, SLOTS),
      purpose: "the slots of the schedule",
    });
    const granted = await session.rows<GrantedSlot>(sql`
    INSERT INTO ${table} AS s (job, slot, due_at, run_id, status, owner, host, pid, attempts, claimed_at, expires_at, _synced_at)
    SELECT c.job, c.slot, c.due_at, c.run_id, 'claimed', ${by.owner}, ${by.host}, ${by.pid}, 1, at,
      at + ${lifeMs} * interval '1 millisecond', at
    FROM unnest(${column("job")}::text[], ${column("slot")}::text[], ${column("dueAt")}::timestamptz[],
        ${column("runId")}::text[]) AS c(job, slot, due_at, run_id)
      CROSS JOIN (SELECT clock_timestamp() AS at) AS moment
    WHERE NOT EXISTS (SELECT FROM ${table} AS o WHERE o.job = c.job AND o.slot <> c.slot
      AND (o.due_at > c.due_at OR (o.ended_at IS NULL AND ${isBeating("o", heartbeat)})))
    ON CONFLICT (job, slot) DO UPDATE SET status = excluded.status, owner = excluded.owner, host = excluded.host,
      pid = excluded.pid, attempts = s.attempts + 1, claimed_at = excluded.claimed_at, expires_at = excluded.expires_at,
      run_id = coalesce(s.run_id, excluded.run_id), _synced_at = excluded._synced_at
      WHERE s.ended_at IS NULL AND NOT ${isBeating("s", heartbeat)}
    RETURNING job, slot, run_id AS "runId"`);
    await session.change(sql`
    UPDATE ${table} AS s SET status = 'missed', ended_at = clock_timestamp(), _synced_at = clock_timestamp()
    FROM unnest(${granted.map(({ job }) => job)}::text[], ${granted.map(({ slot }) => slot)}::text[]) AS g(job, slot)
    WHERE s.job = g.job AND s.slot <> g.slot AND s.ended_at IS NULL`);
    return granted;
  });
}

/** Heartbeat of a scheduler. */
export async function renewSlots(db: Db, owner: string, lifeMs: number): Promise<void> {
  const renewed = db.query
    .updateTable("state.schedule_slot")
    .set({ expires_at: after(lifeMs), _synced_at: CLOCK });
  await db.change(renewed.where("owner", "=", owner).where("ended_at", "is", null));
}

/** Records ends of slots, or releases them. */
export async function endSlots(db: Db, owner: string, ends: SlotEnds): Promise<void> {
  await db.change(sql`
    UPDATE ${db.table(SLOTS)} AS s SET status = coalesce(e.status, 'given_back'), expires_at = clock_timestamp(),
      ended_at = CASE WHEN e.status IS NOT NULL THEN clock_timestamp() END, _synced_at = clock_timestamp()
    FROM unnest(${ends.map(({ job }) => job)}::text[], ${ends.map(({ slot }) => slot)}::text[],
      ${ends.map(({ status }) => status)}::text[]) AS e(job, slot, status)
    WHERE s.job = e.job AND s.slot = e.slot AND s.owner = ${owner} AND s.ended_at IS NULL`);
}
