import type { Db } from "../load/db/db.ts";
import type { Clock } from "../clock.ts";
import type { Config } from "../config/config.ts";
import type { HttpClient } from "../extract/http-client.ts";
import type { Limiter } from "../extract/limits.ts";
import type { Log } from "../log.ts";
import type { Shard } from "./shard.ts";

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

/** Services of all jobs. */
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

/** Options of a run. */
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
