import type { Config } from "../config/config.ts";

/** One of `count` disjoint parts of every input, each for one process; `index` is 0-based. */
export interface Shard {
  readonly index: number;
  readonly count: number;
}

/** Shard of a run without `--shard`. */
export const wholeInput: Shard = { index: 0, count: 1 };

/** Formats a shard as `I/N`. */
export function shardText({ index, count }: Shard): string {
  return `${index}/${count}`;
}

/** Parses `I/N` with 0 <= I < N; null if invalid. */
export function readShard(text: string): Shard | null {
  const [index, count] = /^(\d+)\/(\d+)$/.exec(text)?.slice(1).map(Number) ?? [];
  if (index === undefined || count === undefined || !Number.isSafeInteger(count)) return null;
  return index < count ? { index, count } : null;
}

/** A shard's part of a whole number; the parts of all shards sum to it. */
export function shareOf(limit: number, { index, count }: Shard): number {
  return Math.floor(limit / count) + (index < limit % count ? 1 : 0);
}

/**
 * Divides the limits of a whole run among its shards: concurrency (at least 1), request rates, and the number of records above
 * which the user is asked. Budgets are shared; caps are divided where they are counted.
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
