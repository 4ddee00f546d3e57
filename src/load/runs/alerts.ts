import { sql } from "kysely";
import type { Db } from "../db/db.ts";

/**
 * Records states, and calls `report` with those that differ from the last report; they count as reported if it returns true. Another process
 * waits for it, two minutes at most. A process that is killed meanwhile leaves them to the next one.
 */
export async function reportChanges(
  db: Db,
  states: readonly SubjectState[],
  runId: string,
  report: (changes: readonly StateChange[]) => Promise<boolean>,
): Promise<void> {
  const table = db.table("alert_state");
  // Sorted, so that concurrent processes wait for each other instead of deadlocking.
  const sorted = states.toSorted((a, b) => (a.subject < b.subject ? -1 : 1));
  const recorded = sql`unnest(${sorted.map(({ subject }) => subject)}::text[], ${sorted.map(({ state }) => state)}::text[]) AS n(subject, state)`;
  await db.change(sql`
    INSERT INTO ${table} AS a (subject, state, told_state, changed_at, _synced_at, _run_id)
    SELECT subject, state, 'ok', now(), now(), ${runId} FROM ${recorded}
    ON CONFLICT (subject) DO UPDATE SET state = excluded.state, changed_at = now(), _synced_at = now(), _run_id = excluded._run_id
      WHERE a.state <> excluded.state`);
  await db.transaction(async (session) => {
    // A process that is stopped while it reports must not hold up the others.
    await session.change(sql`SET LOCAL idle_in_transaction_session_timeout = '2min'`);
    const changes = await session.rows<StateChange>(sql`
      SELECT a.subject, a.state, a.told_state AS before FROM ${table} AS a JOIN ${recorded} ON n.subject = a.subject AND n.state = a.state
      WHERE a.state <> a.told_state ORDER BY a.subject FOR UPDATE OF a`);
    if (changes.length === 0 || !(await report(changes))) return;
    await session.change(sql`UPDATE ${table} SET told_state = state, told_at = now(), _synced_at = now()
      WHERE subject = ANY(${changes.map(({ subject }) => subject)}::text[])`);
  });
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

/** Unreported change. */
export interface StateChange extends SubjectState {
  /** State last reported; `ok` for a new subject. */
  readonly before: string;
}
