import type { Config } from "../config/config.ts";

/** One of `count` disjoint parts of every input, for one of as many processes; `index` counts from 0. */
export interface Shard {
  readonly index: number;
  readonly count: number;
}

/** What a run without `--shard` is. */
export const wholeInput: Shard = { index: 0, count: 1 };

/** A shard as users write it and the books keep it: `I/N`. */
export function shardText({ index, count }: Shard): string {
  return `${index}/${count}`;
}

/** Reads `I/N` with 0 <= I < N; null for anything else. */
export function readShard(text: string): Shard | null {
  const [index, count] = /^(\d+)\/(\d+)$/.exec(text)?.slice(1).map(Number) ?? [];
  if (index === undefined || count === undefined || !Number.isSafeInteger(count)) return null;
  return index < count ? { index, count } : null;
}

/** A shard's part of a whole number that all shards share: the parts of all shards add up to it. */
export function shareOf(limit: number, { index, count }: Shard): number {
  return Math.floor(limit / count) + (index < limit % count ? 1 : 0);
}

/**
 * The configuration with this shard's part of what bounds a run as a whole: calls in flight (at least one), calls a second,
 * and the records above which the user is asked. Budgets are shared, not parted; caps are parted where they are counted.
 */
export function shareLimits(config: Config, shard: Shard): Config {
  const { service, confirmAbove } = config;
  const rateOf = (perSecond: number) => perSecond / shard.count;
  return {
    ...config,
    service: {
      ...service,
      concurrency: Math.max(1, shareOf(service.concurrency, shard)),
      requestsPerSecond: service.requestsPerSecond === null ? null : rateOf(service.requestsPerSecond),
      limits: Object.fromEntries(
        Object.entries(service.limits).map(([path, limit]) => [
          path,
          { ...limit, requestsPerSecond: rateOf(limit.requestsPerSecond) },
        ]),
      ),
    },
    confirmAbove: { ...confirmAbove, records: confirmAbove.records / shard.count },
  };
}
