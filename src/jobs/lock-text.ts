import type { LockHolder } from "../load/runs/job-lock.ts";

/** Describes a holder: `run R (process 4711 on etl-1) since 2026-11-21T05:00:00Z`. */
function holderText({ runId, shard, pid, host, acquiredAt }: LockHolder): string {
  const part = shard === "0/1" ? "" : `, shard ${shard}`;
  return `run ${runId} (process ${pid} on ${host}${part}) since ${toSecond(acquiredAt)}`;
}

/** Message about a held job, with the next step. */
export function lockedText(job: string, holders: readonly LockHolder[]): string {
  return (
    `Another process is running ${job}: ${listOf(holders)}. Nothing was sent. Run again with --wait to wait for it. If ` +
    `that process hangs, end it: its lock expires at ${expiryOf(holders)} without a heartbeat.`
  );
}

/** Message that the checkpoints of a held job can't be changed. */
export function checkpointsLockedText(job: string, holders: readonly LockHolder[]): string {
  return (
    `Another process is running ${job}: ${listOf(holders)}. Its checkpoints were not changed; change them after that run. If ` +
    `that process hangs, end it: its lock expires at ${expiryOf(holders)} without a heartbeat.`
  );
}

/** Message for a user who waits. */
export function waitingText(job: string, holders: readonly LockHolder[]): string {
  return `${job}: waiting for another process: ${listOf(holders)}; its lock expires at ${expiryOf(holders)} unless renewed`;
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
