import type { Clock } from "../clock.ts";
import type { Config } from "../config/config.ts";
import type { HttpClient } from "../extract/http-client.ts";
import type { Limiter } from "../extract/limits.ts";
import type { Db } from "../load/db/db.ts";
import type { Log } from "../log.ts";

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

/** Progress display. Calls are cheap. */
export interface Progress {
  /** @param total records to send */
  start(job: string, total: number, label: string): void;
  /** @param figures current totals of the job */
  advance(job: string, by: number, figures?: { readonly matched?: number; readonly rejected?: number }): void;
  /** Message for the user, such as the plan before sending. */
  note(job: string, text: string): void;
  end(job: string): void;
}

export interface JobServices {
  readonly config: Config;
  readonly db: Db;
  readonly http: HttpClient;
  /** Limits concurrency and rate, shared by all jobs. */
  readonly limiter: Limiter;
  readonly clock: Clock;
  readonly log: Log;
  /** Aborted by SIGINT or SIGTERM: nothing new is sent, and answers in flight are kept. */
  readonly signal: AbortSignal;
  /** From 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  readonly progress: Progress;
}

export interface RunRequest {
  /** Job names; empty for all enabled jobs. */
  readonly jobs: readonly string[];
  /** True to send every record again. */
  readonly resend: boolean;
  /** True to read feeds again from the start. */
  readonly fullRefresh: boolean;
  /** Maximum distinct records per job; null for no cap. In a shard, this is the cap of the whole run. */
  readonly maxRecords: number | null;
  /** Part of every input to process; `config` already has its share of the limits. */
  readonly shard: Shard;
  readonly runId: string;
  /** Longest wait for a job that another process holds; 0 leaves the chain at once. */
  readonly waitMs: number;
  /** Confirms every question. */
  readonly yes: boolean;
  readonly acceptParameters: "resend" | "keep" | null;
  /** Failed jobs outside this run; jobs that depend on them are skipped. */
  readonly failedBefore?: readonly string[];
  /** Asks the user; absent if no one can answer. */
  readonly confirm?: (question: string) => Promise<boolean>;
}

/** Request without flags. */
export const plainRun: Omit<RunRequest, "jobs" | "runId"> = {
  resend: false,
  fullRefresh: false,
  maxRecords: null,
  shard: wholeInput,
  waitMs: 0,
  yes: false,
  acceptParameters: null,
};
