import { type RawBuilder, sql } from "kysely";
import type {
  GrantedSlot,
  KnownSlot,
  SchedulerProcess,
  ScheduleWarehouse,
  SlotClaim,
} from "../schedule-warehouse.ts";
import { jsonRows } from "./json-rows.ts";
import { type DatasetNames, tableId } from "./names.ts";
import { oneAtATime } from "./run-transaction.ts";
import { NOW, type Session } from "./session.ts";

type SlotEnds = Parameters<ScheduleWarehouse["endSlots"]>[1];

const slotTable = (names: DatasetNames) => tableId(names, "ops", "schedule_slot");

/** Notes since when jobs are watched. */
export async function watchJobs(
  session: Session,
  jobs: readonly string[],
  sinceAt: string,
  by: SchedulerProcess,
): Promise<void> {
  const table = slotTable(session.names);
  const known = await session.rows<{ job: string }>(
    sql`SELECT DISTINCT job FROM ${table} WHERE job IN UNNEST(${[...jobs]})`,
  );
  const isKnown = new Set(known.map(({ job }) => job));
  const unknown = jobs.filter((job) => !isKnown.has(job));
  if (unknown.length === 0) return;
  await session.transaction({
    declare: [sql`_etl_jobs ARRAY<STRING> DEFAULT ${unknown}`],
    statements: [
      oneAtATime(session.names),
      sql`INSERT INTO ${table} (job, slot, due_at, status, owner, host, pid, attempts, claimed_at, expires_at, ended_at, _synced_at)
        SELECT job, 'first', CAST(${sinceAt} AS TIMESTAMP), 'watched', ${by.owner}, ${by.host}, ${by.pid}, 0, ${NOW}, ${NOW},
          ${NOW}, ${NOW}
        FROM UNNEST(_etl_jobs) AS job WHERE job NOT IN (SELECT s.job FROM ${table} AS s)`,
    ],
  });
}

/** The newest slot of each job. */
export function newestSlots(session: Session): Promise<readonly KnownSlot[]> {
  return session.rows<KnownSlot>(sql`
    SELECT job, slot, due_at AS dueAt, status, run_id AS runId, ended_at AS endedAt,
      ended_at IS NULL AND expires_at > CURRENT_TIMESTAMP() AS isHeld
    FROM ${slotTable(session.names)} WHERE TRUE
    QUALIFY ROW_NUMBER() OVER (PARTITION BY job ORDER BY due_at DESC, claimed_at DESC, slot) = 1
    ORDER BY job`);
}

/** Claims slots; all who claim in the same warehouse come one after the other. */
export async function claimSlots(
  session: Session,
  claims: readonly SlotClaim[],
  by: SchedulerProcess,
  lifeMs: number,
): Promise<readonly GrantedSlot[]> {
  if (claims.length === 0) return [];
  const table = slotTable(session.names);
  const columns = { job: "STRING", slot: "STRING", dueAt: "TIMESTAMP", runId: "STRING" } as const;
  const ours = sql`status = 'claimed', owner = ${by.owner}, host = ${by.host}, pid = ${by.pid}`;
  return session.transaction<GrantedSlot>({
    declare: [
      sql`_etl_claims STRING DEFAULT ${JSON.stringify(claims)}`,
      sql`_etl_expires TIMESTAMP DEFAULT ${later(lifeMs, NOW)}`,
    ],
    statements: [
      oneAtATime(session.names),
      sql`CREATE TEMP TABLE slot_granted AS
        SELECT c.job, c.slot, c.dueAt, IFNULL(s.run_id, c.runId) AS runId, s.job IS NULL AS is_new
        FROM (${jsonRows(sql`_etl_claims`, columns)}) AS c
        LEFT JOIN ${table} AS s ON s.job = c.job AND s.slot = c.slot
        WHERE (s.job IS NULL OR (s.ended_at IS NULL AND s.expires_at <= ${NOW}))
          AND NOT EXISTS (SELECT 1 FROM ${table} AS o WHERE o.job = c.job AND o.slot != c.slot
            AND (o.due_at > c.dueAt OR (o.ended_at IS NULL AND o.expires_at > ${NOW})))`,
      sql`UPDATE ${table} AS s SET ${ours}, attempts = s.attempts + 1, claimed_at = ${NOW}, expires_at = _etl_expires,
          run_id = g.runId, _synced_at = ${NOW}
        FROM slot_granted AS g WHERE s.job = g.job AND s.slot = g.slot AND NOT g.is_new`,
      sql`INSERT INTO ${table} (job, slot, due_at, run_id, status, owner, host, pid, attempts, claimed_at, expires_at, _synced_at)
        SELECT job, slot, dueAt, runId, 'claimed', ${by.owner}, ${by.host}, ${by.pid}, 1, ${NOW}, _etl_expires, ${NOW}
        FROM slot_granted WHERE is_new`,
      sql`UPDATE ${table} AS s SET status = 'missed', ended_at = ${NOW}, _synced_at = ${NOW}
        FROM slot_granted AS g WHERE s.job = g.job AND s.slot != g.slot AND s.ended_at IS NULL`,
    ],
    outcome: sql<GrantedSlot>`SELECT job, slot, runId FROM slot_granted`,
  });
}

function later(ms: number, from: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`TIMESTAMP_ADD(${from}, INTERVAL ${sql.raw(String(Math.round(ms)))} MILLISECOND)`;
}

/** A scheduler's sign of life. */
export async function renewSlots(session: Session, owner: string, lifeMs: number): Promise<void> {
  const now = sql`CURRENT_TIMESTAMP()`;
  await session.change(sql`
    UPDATE ${slotTable(session.names)} SET expires_at = ${later(lifeMs, now)}, _synced_at = ${now}
    WHERE owner = ${owner} AND ended_at IS NULL`);
}

/** Notes how slots ended, or gives them back. */
export async function endSlots(session: Session, owner: string, ends: SlotEnds): Promise<void> {
  if (ends.length === 0) return;
  const rows = JSON.stringify(ends.map(({ job, slot, status }) => ({ job, slot, status })));
  const columns = { job: "STRING", slot: "STRING", status: "STRING" } as const;
  const now = sql`CURRENT_TIMESTAMP()`;
  await session.change(sql`
    UPDATE ${slotTable(session.names)} AS s SET status = IFNULL(e.status, 'given_back'), expires_at = ${now},
      ended_at = IF(e.status IS NULL, NULL, ${now}), _synced_at = ${now}
    FROM (${jsonRows(sql`${rows}`, columns)}) AS e
    WHERE s.job = e.job AND s.slot = e.slot AND s.ended_at IS NULL AND s.owner = ${owner}`);
}
