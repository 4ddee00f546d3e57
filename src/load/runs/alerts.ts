import { sql } from "kysely";
import type { Db } from "../db/db.ts";

/** Records states. Returns those that differ from the last report and marks them as reported. */
export async function changeStates(
  db: Db,
  states: readonly SubjectState[],
  runId: string,
): Promise<readonly StateChange[]> {
  return db.transaction(async (session) => {
    const table = session.table("alert_state");
    // Sorted, so that concurrent processes wait for each other instead of deadlocking.
    const sorted = states.toSorted((a, b) => (a.subject < b.subject ? -1 : 1));
    await session.change(sql`
    INSERT INTO ${table} AS a (subject, state, told_state, changed_at, _synced_at, _run_id)
    SELECT subject, state, 'ok', now(), now(), ${runId}
    FROM unnest(${sorted.map(({ subject }) => subject)}::text[], ${sorted.map(({ state }) => state)}::text[]) AS n(subject, state)
    ON CONFLICT (subject) DO UPDATE SET state = excluded.state, changed_at = now(), _synced_at = now(), _run_id = excluded._run_id
      WHERE a.state <> excluded.state`);
    return session.rows<StateChange>(sql`
    WITH untold AS (
      SELECT subject, told_state AS before FROM ${table}
      WHERE subject = ANY(${sorted.map(({ subject }) => subject)}::text[]) AND state <> told_state ORDER BY subject FOR UPDATE)
    UPDATE ${table} AS a SET told_state = a.state, told_at = now(), _synced_at = now()
    FROM untold AS u WHERE a.subject = u.subject RETURNING a.subject, a.state, u.before`);
  });
}

/** Marks changes as unreported, unless the state has changed again. */
export async function unmarkReported(db: Db, changes: readonly StateChange[]): Promise<void> {
  const column = (name: keyof StateChange) => changes.map((change) => change[name]);
  await db.change(sql`
    UPDATE ${db.table("alert_state")} AS a SET told_state = c.before, _synced_at = now()
    FROM unnest(${column("subject")}::text[], ${column("state")}::text[], ${column("before")}::text[]) AS c(subject, state, before)
    WHERE a.subject = c.subject AND a.told_state = c.state`);
}

/** Returns the state last reported of an event, and the one that waits to be reported; null for a new subject. */
export async function readEvent(
  db: Db,
  subject: string,
): Promise<{ readonly reported: string; readonly waiting: string | null } | null> {
  const [row] = await db.rows(
    db.query.selectFrom("state.alert_state").select(["state", "told_state"]).where("subject", "=", subject),
  );
  if (!row) return null;
  return { reported: row.told_state, waiting: row.state === row.told_state ? null : row.state };
}

/** Records what counts as reported before the first report. */
export async function markFirst(db: Db, { subject, state }: SubjectState, runId: string): Promise<void> {
  await db.change(sql`
    INSERT INTO ${db.table("alert_state")} (subject, state, told_state, changed_at, _synced_at, _run_id)
    VALUES (${subject}, ${state}, ${state}, now(), now(), ${runId}) ON CONFLICT (subject) DO NOTHING`);
}

export interface SubjectState {
  /** `job NAME`, `freshness NAME`, `budget TYPE PERIOD`, … */
  readonly subject: string;
  /** `ok`, or a code. */
  readonly state: string;
}

/** Unreported change, which the caller must report. */
export interface StateChange extends SubjectState {
  /** State last reported; `ok` for a new subject. */
  readonly before: string;
}
