import { type RawBuilder, sql } from "kysely";
import { createHash } from "node:crypto";
import { LockLostError } from "../../errors.ts";
import { type SchemaNames } from "../db/names.ts";
import type { Session } from "../db/session.ts";

/** Owner of a call in the ledger. */
export type CallOwner = Pick<RunRef, "runId" | "job">;

/** Identity of one run of one job. */
export interface RunRef {
  readonly runId: string;
  readonly job: string;
  readonly jobType: string;
  /** `I/N`; `0/1` without shards. */
  readonly shard: string;
  /** Epoch of the run's lock; commits under an older one are rejected. */
  readonly epoch: number;
}

/**
 * Last statement of every transaction of a run. Throws unless the run holds its lock, and blocks a takeover until COMMIT.
 * Blocks neither heartbeats nor other loaders of the run.
 */
export async function fence(session: Session, run: RunRef): Promise<void> {
  await requireLock(session, run, sql`FOR KEY SHARE`);
}

/** Throws unless the run holds its lock; without a row lock, does not block a takeover. */
export async function requireLock(session: Session, run: RunRef, rowLock = sql``): Promise<void> {
  const held = await session.rows(
    sql`SELECT FROM ${session.table("job_lock")} WHERE ${isHeldBy(run)} ${rowLock}`,
  );
  if (held.length > 0) return;
  throw new LockLostError(
    `${run.job}: another process took over this job, so this one stops. Everything it had ` +
      "committed is kept; `status` shows which process runs the job now.",
  );
}

/** Name of the sessions of a run's transactions, by the token of its lock, so that a takeover can end exactly those. */
export const sessionName = (token: string): string => `person-etl ${token}`;

/** Token of a lock. */
export function ownerToken(
  names: SchemaNames,
  { job, shard, epoch }: Pick<RunRef, "job" | "shard" | "epoch">,
): string {
  const owner = JSON.stringify([names.ops, job, shard, epoch]);
  return createHash("sha256").update(owner).digest("hex").slice(0, 24);
}

/** A moment that is constant within a statement, so that conditions can become joins. */
export const STATEMENT_START = sql`statement_timestamp()`;

/**
 * Condition: the heartbeat of a row is younger than its life. A heartbeat that far in the future counts as old: a clock that
 * was ahead holds nothing.
 */
export function isBeating(
  row: string,
  {
    beatAt = "heartbeat_at",
    now = sql`clock_timestamp()`,
  }: { readonly beatAt?: string; readonly now?: RawBuilder<unknown> } = {},
): RawBuilder<boolean> {
  const [beat, end] = [sql.id(row, beatAt), sql.id(row, "expires_at")];
  return sql`(${end} > ${now} AND ${beat} - ${now} < ${end} - ${beat})`;
}

/** Condition for the lock row of a run. */
export const isHeldBy = ({ job, shard, epoch }: RunRef) =>
  sql<boolean>`job = ${job} AND shard = ${shard} AND epoch = ${epoch} AND released_at IS NULL`;
