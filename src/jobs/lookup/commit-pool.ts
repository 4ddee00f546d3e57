import { commitLookup } from "../../load/answers/commit-lookup.ts";
import type { Db } from "../../load/db/db.ts";
import type { CommitHead, CommitResult, LookupPart } from "../../load/lookup.ts";
import { openLoaderPool } from "./loader-pool.ts";
import type { Outage } from "../outage.ts";

/** Commits under way at the same time. */
const PARALLEL_COMMITS = 2;

/** Commits the calls that arrive, a transaction each. */
export interface CommitPool<Call, Kept> {
  /** Hands over one call; waits while too many are waiting. Rejects once a commit has failed. */
  push(call: Call): Promise<void>;
  /** Waits until everything is committed; rejects with the first commit's failure. */
  drain(): Promise<void>;
  /** Calls that were handed over and, after a failure, not committed. */
  left(): readonly Kept[];
}

/** Callbacks of a pool. */
export interface CommitPoolOptions<Call, Kept> {
  readonly db: Db;
  readonly outage: Outage;
  headOf(call: Call): CommitHead;
  partOf(call: Call): LookupPart;
  /** Returns what is needed of a call after its commit. */
  keep(call: Call): Kept;
  committed(calls: readonly Kept[], result: CommitResult): Promise<void>;
}

/** Opens a pool; nothing is left behind after `drain`. */
export function openCommitPool<Call, Kept>(options: CommitPoolOptions<Call, Kept>): CommitPool<Call, Kept> {
  const { db, outage } = options;
  const pool = openLoaderPool<Call>({
    loaders: PARALLEL_COMMITS,
    // Bounds the memory for received answers, with what the loaders hold.
    maxGroup: 1,
    maxWaiting: 1,
    async commit([call]) {
      if (call === undefined) return;
      const commit = { ...options.headOf(call), ...options.partOf(call) };
      const result = await outage.outlast(() => commitLookup(db, commit));
      await options.committed([options.keep(call)], result);
    },
  });
  return { ...pool, left: () => pool.left().map((call) => options.keep(call)) };
}
