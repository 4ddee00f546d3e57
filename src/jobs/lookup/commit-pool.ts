import { type CommitPool, type CommitPoolOptions, openGatheringPool } from "./gathering-pool.ts";
import { openLoaderPool } from "./loader-pool.ts";

/** Opens a pool; nothing is left behind after `drain`. */
export function openCommitPool<Call, Kept>(options: CommitPoolOptions<Call, Kept>): CommitPool<Call, Kept> {
  const { warehouse, outage } = options;
  const { gathering } = warehouse;
  if (gathering) return openGatheringPool(options, gathering);
  const pool = openLoaderPool<Call>({
    loaders: warehouse.parallelCommits,
    // With what the loaders hold this bounds the memory for received answers.
    maxGroup: 1,
    maxWaiting: 1,
    async commit([call]) {
      if (call === undefined) return;
      const commit = { ...options.headOf(call), ...options.partOf(call) };
      const result = await outage.outlast(() => warehouse.commitLookup(commit));
      await options.committed([options.keep(call)], result);
    },
  });
  return { ...pool, left: () => pool.left().map((call) => options.keep(call)) };
}
