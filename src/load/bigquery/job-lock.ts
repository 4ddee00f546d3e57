import { type RawBuilder, sql } from "kysely";
import type { LockHolder, LockReply, LockRequest, RunRef } from "../warehouse.ts";
import { jobHeartbeat } from "./ddl.ts";
import { type DatasetNames, tableId } from "./names.ts";
import { isHeldBy, oneAtATime } from "./run-transaction.ts";
import { NOW, type Session } from "./session.ts";

/** A row of `job_lock` that isn't released, with the newest sign of life. */
interface HolderRow {
  readonly job: string;
  readonly shard: string;
  readonly epoch: number;
  readonly run_id: string;
  readonly host: string;
  readonly pid: number;
  readonly machine: string | null;
  readonly process_start: string | null;
  readonly acquired_at: string;
  readonly heartbeat_at: string;
  readonly expires_at: string;
  readonly is_expired: boolean;
}

const HOLDER_COLUMNS =
  sql.raw(`h.job, h.shard, h.epoch, h.run_id, h.host, h.pid, h.machine, h.process_start, h.acquired_at,
  h.heartbeat_at, h.expires_at, h.is_expired`);

const HOLDER_TYPE =
  sql.raw(`STRUCT<job STRING, shard STRING, epoch INT64, run_id STRING, host STRING, pid INT64,
  machine STRING, process_start STRING, acquired_at TIMESTAMP, heartbeat_at TIMESTAMP, expires_at TIMESTAMP, is_expired BOOL>`);

/**
 * Gets the lock of a job or a shard of it, by compare-and-set in one transaction. Those who want any lock come one after the
 * other, because all of them change one row of the table; and after every commit under way, because that has changed its own
 * row (see `fence`): whoever comes second is cancelled and tries again.
 */
export async function acquireLock(session: Session, request: LockRequest): Promise<LockReply> {
  const { names } = session;
  const { job, shard, runId, process, lifeMs, dead } = request;
  const lock = tableId(names, "ops", "job_lock");
  const heartbeat = tableId(names, "ops", jobHeartbeat.name);
  const deadKeys = dead.map((holder) => `${holder.shard} ${holder.epoch}`);
  const taken = sql`SELECT w.shard FROM UNNEST(in_the_way) AS w`;
  const [outcome] = await session.transaction<{
    alive: number;
    epoch: number;
    in_the_way: readonly HolderRow[];
  }>({
    declare: [
      sql`alive INT64 DEFAULT 0`,
      sql`new_epoch INT64 DEFAULT 0`,
      sql`in_the_way ARRAY<${HOLDER_TYPE}>`,
    ],
    statements: [
      oneAtATime(names),
      sql`SET in_the_way = ARRAY(SELECT AS STRUCT ${HOLDER_COLUMNS} FROM (${holderRows(names, job, NOW)}) AS h
        WHERE h.shard = ${shard} OR SPLIT(h.shard, '/')[SAFE_OFFSET(1)] != ${shardCountOf(shard)} ORDER BY h.shard)`,
      sql`SET alive = (SELECT COUNT(*) FROM UNNEST(in_the_way) AS w
        WHERE NOT w.is_expired AND CONCAT(w.shard, ' ', CAST(w.epoch AS STRING)) NOT IN UNNEST(${deadKeys}))`,
      sql`IF alive = 0 THEN
        SET new_epoch = (SELECT IFNULL(MAX(epoch), 0) + 1 FROM ${lock} WHERE job = ${job} AND shard = ${shard});
        UPDATE ${lock} SET epoch = epoch + 1, released_at = ${NOW}, _synced_at = ${NOW}
          WHERE job = ${job} AND shard != ${shard} AND shard IN (${taken});
        DELETE FROM ${lock} WHERE job = ${job} AND shard = ${shard};
        INSERT INTO ${lock} (job, shard, epoch, owner_token, run_id, host, pid, machine, process_start, acquired_at,
            heartbeat_at, expires_at, released_at, _synced_at)
          SELECT ${job}, ${shard}, new_epoch, '', ${runId}, ${process.host}, ${process.pid}, ${process.machine},
            ${process.processStart}, ${NOW}, ${NOW}, TIMESTAMP_ADD(${NOW}, INTERVAL ${lifeMs} MILLISECOND), NULL, ${NOW};
        DELETE FROM ${heartbeat} WHERE job = ${job} AND (shard = ${shard} OR shard IN (${taken}));
        ${closeAbandonedRuns(names, job, shard)};
        END IF`,
    ],
    outcome: sql`SELECT alive, new_epoch AS epoch, in_the_way`,
  });
  const holders = (outcome?.in_the_way ?? []).map(holderOf);
  if (!outcome || outcome.alive > 0) {
    const isDead = (holder: LockHolder) => deadKeys.includes(`${holder.shard} ${holder.epoch}`);
    return { kind: "refused", holders: holders.filter((holder) => !holder.isExpired && !isDead(holder)) };
  }
  const { jobType } = request;
  return { kind: "held", run: { runId, job, jobType, shard, epoch: outcome.epoch }, tookOver: holders };
}

/** The sign of life; false when the lock is lost. Appended, so that it waits for no commit. */
export async function renewLock(session: Session, run: RunRef, lifeMs: number): Promise<boolean> {
  const { names } = session;
  const renewed = await session.change(sql`
    INSERT INTO ${tableId(names, "ops", jobHeartbeat.name)} (job, shard, epoch, run_id, expires_at, _synced_at)
    SELECT job, shard, epoch, run_id, TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL ${lifeMs} MILLISECOND), CURRENT_TIMESTAMP()
    FROM ${tableId(names, "ops", "job_lock")} WHERE ${isHeldBy(run)}`);
  return renewed > 0;
}

/** Gives the lock back, if it is still held. */
export async function releaseLock(session: Session, run: RunRef): Promise<void> {
  await session.change(sql`
    UPDATE ${tableId(session.names, "ops", "job_lock")} SET released_at = CURRENT_TIMESTAMP(), _synced_at = CURRENT_TIMESTAMP()
    WHERE ${isHeldBy(run)}`);
}

/** Who holds a job at the moment. */
export async function readHolders(session: Session, job: string): Promise<readonly LockHolder[]> {
  const rows = await session.rows<HolderRow>(
    sql`SELECT * FROM (${holderRows(session.names, job, sql`CURRENT_TIMESTAMP()`)}) AS h ORDER BY h.shard`,
  );
  return rows.map(holderOf);
}

/** Locks of a job that aren't released, each as its newest sign of life leaves it. */
function holderRows(names: DatasetNames, job: string, now: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`SELECT l.job, l.shard, l.epoch, l.run_id, l.host, l.pid, l.machine, l.process_start, l.acquired_at,
      IFNULL(b.heartbeat_at, l.heartbeat_at) AS heartbeat_at, IFNULL(b.expires_at, l.expires_at) AS expires_at,
      IFNULL(b.expires_at, l.expires_at) <= ${now} AS is_expired
    FROM ${tableId(names, "ops", "job_lock")} AS l
    LEFT JOIN (
      SELECT shard, epoch, MAX(_synced_at) AS heartbeat_at, MAX(expires_at) AS expires_at
      FROM ${tableId(names, "ops", jobHeartbeat.name)} WHERE job = ${job} GROUP BY shard, epoch) AS b
    ON b.shard = l.shard AND b.epoch = l.epoch
    WHERE l.job = ${job} AND l.released_at IS NULL`;
}

/** `4` of `1/4`. */
function shardCountOf(shard: string): string {
  return shard.slice(shard.indexOf("/") + 1);
}

function holderOf(row: HolderRow): LockHolder {
  return {
    job: row.job,
    shard: row.shard,
    epoch: row.epoch,
    runId: row.run_id,
    host: row.host,
    pid: row.pid,
    machine: row.machine,
    processStart: row.process_start,
    acquiredAt: row.acquired_at,
    heartbeatAt: row.heartbeat_at,
    expiresAt: row.expires_at,
    isExpired: row.is_expired,
  };
}

/**
 * Closes the runs that nobody goes on with: those of our shard, and of every other one that nobody holds. What nothing
 * was noted of remains.
 */
function closeAbandonedRuns(names: DatasetNames, job: string, shard: string): RawBuilder<unknown> {
  return sql`UPDATE ${tableId(names, "ops", "sync_run")} SET status = 'failed', finished_at = ${NOW}, _synced_at = ${NOW},
      safe_until = NULL, error = 'The process ended without closing this run.',
      records_remaining = GREATEST(0, records_read - records_unchanged - records_duplicate - records_suppressed
        - records_waiting - records_sent - records_rejected_before_sending)
    WHERE job = ${job} AND status = 'running' AND shard NOT IN (
      SELECT l.shard FROM ${tableId(names, "ops", "job_lock")} AS l
      WHERE l.job = ${job} AND l.shard != ${shard} AND l.released_at IS NULL)`;
}
