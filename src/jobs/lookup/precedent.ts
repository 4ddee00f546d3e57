import type { PastRun } from "../../load/lookup.ts";
import { readShard, type Shard, shardText, wholeInput } from "../shard.ts";

/** What earlier runs say of a run that is due for much. */
export type Precedent =
  /** No run got as far as sending. */
  | "none"
  /** Some did, but of a part of the input only: the rest has its first run still before it. */
  | "first_pass"
  /** Rows that the last pass was due for and left, in this shard; null when it left nothing. */
  | { readonly unfinishedDue: number | null };

/**
 * Looks for what a run goes on with. The other shards of the same number say nothing about this one's rows; shards of
 * another number make up one pass together.
 * @param pastRuns newest first.
 */
export function precedentOf(pastRuns: readonly PastRun[], shard: Shard): Precedent {
  const own = shardText(shard);
  const runs = pastRuns
    .filter(hasSent)
    .map((run) => ({ run, shard: readShard(run.shard) ?? wholeInput }))
    .filter(({ run, shard: past }) => run.shard === own || past.count !== shard.count);
  const [last] = runs;
  if (!last) return "none";
  const isWholeSeen = runs.some(
    ({ run, shard: { count } }) =>
      run.shard === own ||
      new Set(runs.filter((r) => r.shard.count === count).map((r) => r.run.shard)).size === count,
  );
  if (!isWholeSeen) return "first_pass";
  const other = runs.findIndex((r) => r.shard.count !== last.shard.count);
  const newest = new Map<string, PastRun>();
  for (const { run } of other < 0 ? runs : runs.slice(0, other)) {
    if (!newest.has(run.shard)) newest.set(run.shard, run);
  }
  const unfinished = [...newest.values()].filter((run) => run.status !== "succeeded");
  if (unfinished.length === 0) return { unfinishedDue: null };
  const due = unfinished.reduce((sum, run) => sum + run.recordsDue, 0);
  return { unfinishedDue: last.run.shard === own ? due : due / shard.count };
}

/** Runs that ended before sending, for want of the user's word or with a rejected key, say nothing about what is usual. */
function hasSent(run: PastRun): boolean {
  return run.status === "succeeded" || run.counters.records_sent > 0;
}
