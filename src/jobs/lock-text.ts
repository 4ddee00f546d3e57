import type { LockHolder } from "../load/lookup.ts";

/** Who a holder is, where, and since when: `run R (process 4711 on etl-1) since 2026-11-21T05:00:00Z`. */
export function holderText({ runId, shard, pid, host, acquiredAt }: LockHolder): string {
  const part = shard === "0/1" ? "" : `, shard ${shard}`;
  return `run ${runId} (process ${pid} on ${host}${part}) since ${toSecond(acquiredAt)}`;
}

/** Why a job is left out, and what to do about it. */
export function lockedText(job: string, holders: readonly LockHolder[]): string {
  return (
    `${job} is run by another process: ${listOf(holders)}. Nothing was sent. Run again with --wait to wait for it. If ` +
    `that process hangs or its machine is gone, end it: its lock expires at ${expiryOf(holders)} unless it gives a sign of life.`
  );
}

/** Why the checkpoints of a job can't be moved now. */
export function checkpointsLockedText(job: string, holders: readonly LockHolder[]): string {
  return (
    `${job} is run by another process: ${listOf(holders)}. Its checkpoints stay as they are: move them once that run has ended. If ` +
    `that process hangs or its machine is gone, end it: its lock expires at ${expiryOf(holders)} unless it gives a sign of life.`
  );
}

/** What is told to somebody who waits. */
export function waitingText(job: string, holders: readonly LockHolder[]): string {
  return `${job}: waiting for another process: ${listOf(holders)}; its lock expires at ${expiryOf(holders)} unless it is renewed`;
}

function listOf(holders: readonly LockHolder[]): string {
  return holders.map(holderText).join("; ");
}

function expiryOf(holders: readonly LockHolder[]): string {
  return toSecond(
    holders
      .map((holder) => holder.expiresAt)
      .toSorted()
      .at(-1) ?? "",
  );
}

function toSecond(instant: string): string {
  return instant.replace(/\.\d+/, "");
}
