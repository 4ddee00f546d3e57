import { sql } from "kysely";
import { randomUUID } from "node:crypto";
import { codeOf, StopJobError, StopRunError } from "../../errors.ts";
import type { Db } from "../db/db.ts";
import { after, CLOCK, NOW, type SchemaNames, tableId } from "../db/names.ts";
import { type LockWait, type Session, waitForLock } from "../db/session.ts";
import { isBeating, isHeldBy, ownerToken, type RunRef, sessionName } from "./fence.ts";
import { noCounts } from "./runs.ts";
import type { RunnerProcess } from "../../process-state.ts";
import { type Writer, writers } from "../../schemas/ops.ts";

/** Holder of a job, or of a shard of it. */
export interface LockHolder extends RunnerProcess {
  readonly job: string;
  readonly shard: string;
  readonly epoch: number;
  readonly runId: string;
  readonly acquiredAt: string;
  readonly heartbeatAt: string;
  readonly expiresAt: string;
  /** True if expired by the warehouse's clock; another process can take over. */
  readonly isExpired: boolean;
}

export interface LockRequest extends Omit<RunRef, "epoch"> {
  readonly process: RunnerProcess;
  /** Milliseconds without a heartbeat after which the lock expires. */
  readonly lifeMs: number;
  /** Dead holders, treated as expired. */
  readonly dead: readonly LockHolder[];
}

export type LockReply =
  | {
      readonly kind: "held";
      readonly run: RunRef;
      /** Expired or dead holders, whose runs were marked as failed. */
      readonly tookOver: readonly LockHolder[];
    }
  /** Other holders of the job: the same shard, or a different shard count. */
  | { readonly kind: "refused"; readonly holders: readonly LockHolder[] };

/** Maximum wait of a takeover for a commit of the former owner. */
const COMMIT_TIMEOUT = "30s";

interface LockRow extends LockHolder {
  readonly ownerToken: string;
  readonly isReleased: boolean;
}

/**
 * Acquires the lock of a job, or of a shard of it, by compare-and-set; one process per job at a time. Locks the row FOR
 * UPDATE, unlike a heartbeat, so that raising the epoch waits for every fence that has passed.
 */
export async function acquireLock(db: Db, request: LockRequest): Promise<LockReply> {
  return db.transaction(async (session) => {
    const { job, shard } = request;
    await waitForLock(session, requestLock(db.names, job));
    const known = await readRows(session, job);
    const inTheWay = known.filter((row) => isInTheWay(row, shard));
    const refusal = refusalBy(inTheWay, request);
    if (refusal) return refusal;
    await endSessions(session, inTheWay);
    // A holder that appeared dead may have renewed its lock.
    const locked = await lockRows(session, job, inTheWay);
    const lateRefusal = refusalBy(locked, request);
    if (lateRefusal) return lateRefusal;
    // New sessions of the former owner can't commit anymore, but would block others.
    await endSessions(session, inTheWay);
    const takenOver = locked.filter((row) => !row.isReleased);
    const others = takenOver.filter((row) => row.shard !== shard).map((row) => row.shard);
    await session.change(sql`
    UPDATE ${session.table("job_lock")} SET epoch = epoch + 1, released_at = clock_timestamp(), _synced_at = now()
    WHERE job = ${job} AND shard = ANY(${others}::text[])`);
    const epoch = (locked.find((row) => row.shard === shard)?.epoch ?? 0) + 1;
    await writeOwner(session, request, epoch);
    await closeAbandonedRuns(session, { job, shard });
    const { runId, jobType } = request;
    return { kind: "held", run: { runId, job, jobType, shard, epoch }, tookOver: takenOver.map(holderOf) };
  });
}

/** Lock of the requests for a job. A row apart from the job's lock, so that it blocks neither heartbeats nor commits. */
export function requestLock(names: SchemaNames, job: string): LockWait {
  const table = tableId(names, "job_request");
  return {
    purpose: `requests for the job ${job}`,
    take: sql`INSERT INTO ${table} (job, _synced_at, _run_id) VALUES (${job}, now(), '')
      ON CONFLICT (job) DO UPDATE SET _synced_at = now()`,
    holders: sql`SELECT l.pid FROM pg_catalog.pg_locks AS l JOIN ${table} AS r ON r.xmax = l.transactionid
      WHERE l.granted AND l.locktype = 'transactionid' AND r.job = ${job}`,
  };
}

/** Heartbeat; false if the lock is lost. */
export async function renewLock(db: Db, run: RunRef, lifeMs: number): Promise<boolean> {
  const renewed = db.query
    .updateTable("state.job_lock")
    .set({ heartbeat_at: CLOCK, _synced_at: CLOCK, expires_at: after(lifeMs) });
  return db.lockTransaction(async (session) => (await session.change(renewed.where(isHeldBy(run)))) > 0);
}

/** Releases the lock if it is still held. */
export async function releaseLock(db: Db, run: RunRef): Promise<void> {
  await db.change(
    db.query
      .updateTable("state.job_lock")
      .set({ released_at: CLOCK, _synced_at: CLOCK })
      .where(isHeldBy(run)),
  );
}

/** Current holders of all jobs and shards, including expired ones. */
export async function readHolders(db: Pick<Session, "rows" | "table">): Promise<readonly LockHolder[]> {
  const rows = await db.rows<LockRow>(sql`
    SELECT ${lockRow} FROM ${db.table("job_lock")} AS l WHERE released_at IS NULL ORDER BY job, shard`);
  return rows.map(holderOf);
}

const lockRow = sql`job, shard, epoch, owner_token AS "ownerToken", run_id AS "runId", host, pid, machine,
  process_start AS "processStart", acquired_at AS "acquiredAt", heartbeat_at AS "heartbeatAt", expires_at AS "expiresAt",
  NOT ${isBeating("l")} AS "isExpired", released_at IS NOT NULL AS "isReleased"`;

function readRows(session: Session, job: string): Promise<readonly LockRow[]> {
  return session.rows<LockRow>(sql`
    SELECT ${lockRow} FROM ${session.table("job_lock")} AS l WHERE job = ${job} ORDER BY shard`);
}

/** True for the same shard, or a shard of another division: both could send the same records. */
export function isInTheWay(row: Pick<LockRow, "shard">, shard: string): boolean {
  return row.shard === shard || shardCountOf(row.shard) !== shardCountOf(shard);
}

/** `4` of `1/4`. */
function shardCountOf(shard: string): string {
  return shard.slice(shard.indexOf("/") + 1);
}

function refusalBy(rows: readonly LockRow[], { dead }: LockRequest): LockReply | null {
  const isDead = (row: LockRow) =>
    dead.some(({ shard, epoch }) => row.shard === shard && row.epoch === epoch);
  const alive = rows.filter((row) => !row.isReleased && !row.isExpired && !isDead(row));
  return alive.length === 0 ? null : { kind: "refused", holders: alive.map(holderOf) };
}

function holderOf(row: LockRow): LockHolder {
  const { ownerToken: _token, isReleased: _released, ...holder } = row;
  return holder;
}

/**
 * Ends sessions of former owners: a COPY whose client has stopped survives every timeout and cancellation. Without
 * privilege to end them, the takeover waits for their commits.
 */
async function endSessions(session: Session, owners: readonly LockRow[]): Promise<void> {
  const sessionNames = owners.map((row) => sessionName(row.ownerToken));
  await session.client.query("SAVEPOINT before_ending");
  try {
    // A transaction sees the sessions as it first read them.
    await session.rows(sql`SELECT pg_stat_clear_snapshot()`);
    await session.rows(sql`
      SELECT pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
      WHERE datname = current_database() AND application_name = ANY(${sessionNames}::text[]) AND pid <> pg_backend_pid()`);
  } catch (error) {
    if (codeOf(error) !== "42501") throw error;
    await session.client.query("ROLLBACK TO SAVEPOINT before_ending");
  }
}

/** Locks the rows after fences in progress have committed. Returns their current state. */
async function lockRows(
  session: Session,
  job: string,
  rows: readonly LockRow[],
): Promise<readonly LockRow[]> {
  await session.client.query(`SET LOCAL lock_timeout = '${COMMIT_TIMEOUT}'`);
  try {
    return await session.rows<LockRow>(sql`
      SELECT ${lockRow} FROM ${session.table("job_lock")} AS l
      WHERE job = ${job} AND shard = ANY(${rows.map((row) => row.shard)}::text[]) ORDER BY shard FOR UPDATE`);
  } catch (error) {
    if (codeOf(error) !== "55P03") throw error;
    const former = rows.map((row) => sessionName(row.ownerToken)).join("', '");
    throw new StopJobError(
      "takeover_blocked",
      `${job}: can't take over the job, because the process that ran it before is still committing. Find the ` +
        `sessions whose application_name is '${former}' in pg_stat_activity, and end them with pg_terminate_backend ` +
        "as a role with that privilege.",
      { cause: error },
    );
  }
}

async function writeOwner(session: Session, request: LockRequest, epoch: number): Promise<void> {
  const { job, shard, runId, lifeMs, process } = request;
  const at = sql<string>`statement_timestamp()`;
  const owner = {
    epoch,
    owner_token: ownerToken(session.names, { job, shard, epoch }),
    run_id: runId,
    host: process.host,
    pid: process.pid,
    machine: process.machine,
    process_start: process.processStart,
    acquired_at: at,
    heartbeat_at: at,
    expires_at: sql<string>`statement_timestamp() + ${lifeMs} * interval '1 millisecond'`,
    released_at: null,
    _synced_at: at,
  };
  const insert = session.query.insertInto("state.job_lock").values({ job, shard, ...owner });
  await session.change(insert.onConflict((clash) => clash.columns(["job", "shard"]).doUpdateSet(owner)));
}

/**
 * Closes abandoned runs of every job, and commands: those of this shard and those without a holder. Counts that were not
 * recorded stay 0.
 */
async function closeAbandonedRuns(
  session: Session,
  { job, shard }: Pick<RunRef, "job" | "shard">,
): Promise<void> {
  // Skips entries that another process closes.
  const abandoned = sql`SELECT r.run_id, r.job, r.shard FROM ${session.table("sync_run")} AS r
    WHERE r.status = 'running' AND CASE WHEN ${isWriter} THEN ${isAbandonedWriter} ELSE NOT EXISTS (
      SELECT FROM ${session.table("job_lock")} AS l
      WHERE l.job = r.job AND l.shard = r.shard AND (l.job, l.shard) <> (${job}, ${shard}) AND l.released_at IS NULL) END
    FOR UPDATE SKIP LOCKED`;
  await session.change(sql`
    UPDATE ${session.table("sync_run")} SET status = 'failed', finished_at = now(), _synced_at = now(),
      error = 'The process ended without closing this run.',
      records_remaining = greatest(0, records_read - records_unchanged - records_duplicate - records_suppressed
        - records_waiting - records_sent - records_rejected_before_sending)
    WHERE (run_id, job, shard) IN (${abandoned})`);
}

/** Time between the registration of a writer and its transaction; longer only if the process was suspended. */
const REGISTRATION_LIFE = "30 seconds";

/**
 * Runs a command's transaction, registered in `sync_run` in a transaction of its own before: until it has committed,
 * `safe_until` stays before its start.
 */
export async function asWriter<Result>(
  db: Db,
  writer: Writer,
  work: (session: Session) => Promise<Result>,
): Promise<Result> {
  const runId = randomUUID();
  const ended = db.query
    .updateTable("ops.sync_run")
    .where("run_id", "=", runId)
    .where("status", "<>", "failed");
  const end = (session: Session, status: "succeeded" | "failed") =>
    session.change(ended.set({ status, finished_at: CLOCK, _synced_at: CLOCK }));
  const key = { run_id: runId, job: writer, shard: "0/1", job_type: writer };
  const begun = { ...key, ...noCounts, status: "running", started_at: NOW, records_due: 0, _synced_at: NOW };
  const insert = db.query.insertInto("ops.sync_run").values(begun);
  // Repeated if the reply to COMMIT is lost.
  await db.transaction((session) => session.change(insert.onConflict((clash) => clash.doNothing())));
  try {
    return await db.transaction(async (session) => {
      // Whoever closes abandoned entries skips locked ones.
      const open = session.query.selectFrom("ops.sync_run").select("run_id").where("run_id", "=", runId);
      const held = await session.rows(open.where("status", "<>", "failed").forUpdate());
      if (held.length === 0) throw suspended(writer);
      const result = await work(session);
      await end(session, "succeeded");
      return result;
    });
  } catch (error) {
    // Report the error of the work; the next run closes an open entry.
    await db.transaction((session) => end(session, "failed")).catch(() => {});
    throw error;
  }
}

function suspended(writer: Writer): StopRunError {
  return new StopRunError(
    "writer_suspended",
    `${writer}: this process was suspended before it could write, so another one closed its entry in sync_run. Nothing ` +
      "was changed; run the command again.",
  );
}

/** Condition for the entry `r` of a command. */
const isWriter = sql`r.job IN (${sql.join(writers.map((name) => sql.lit(name)))})`;

/** Condition for the entry `r` of a command whose process ended without closing it, unless its transaction has locked the row. */
const isAbandonedWriter = sql`r.started_at NOT BETWEEN clock_timestamp() - interval ${sql.lit(REGISTRATION_LIFE)}
    AND clock_timestamp() + interval ${sql.lit(REGISTRATION_LIFE)}`;
