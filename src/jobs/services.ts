import type { Db } from "../load/db/db.ts";
import type { Clock } from "../clock.ts";
import type { Config } from "../config/config.ts";
import type { HttpClient } from "../extract/http-client.ts";
import type { Limiter } from "../extract/limits.ts";
import type { Log } from "../log.ts";
import type { Shard } from "./shard.ts";

/** Progress display; calls are cheap and may be many. */
export interface Progress {
  /** @param total records that will be sent. */
  start(job: string, total: number, label: string): void;
  /** @param figures totals of the job so far. */
  advance(job: string, by: number, figures?: { readonly matched?: number; readonly rejected?: number }): void;
  /** A sentence for the person who watches, such as the plan before anything is sent. */
  note(job: string, text: string): void;
  end(job: string): void;
}

/** Services of all jobs. */
export interface JobServices {
  readonly config: Config;
  readonly db: Db;
  readonly http: HttpClient;
  /** Concurrency and rate, shared by all jobs. */
  readonly limiter: Limiter;
  readonly clock: Clock;
  readonly log: Log;
  /** Aborted by SIGINT or SIGTERM: nothing new is sent, what is in flight is kept. */
  readonly signal: AbortSignal;
  /** From 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  readonly progress: Progress;
}

/** Options of a run. */
export interface RunRequest {
  /** Names; empty for every job that is switched on. */
  readonly jobs: readonly string[];
  /** Send every record again. */
  readonly resend: boolean;
  /** Read free feeds again from the start. */
  readonly fullRefresh: boolean;
  /** Most distinct records that each job sends; null for no cap. Of a shard the cap of the whole run. */
  readonly maxRecords: number | null;
  /** The part of every input that this run looks at; the services' configuration and limits are this part's. */
  readonly shard: Shard;
  readonly runId: string;
  /** Longest wait for a job that another process holds; 0 leaves the chain at once. */
  readonly waitMs: number;
  /** Answers every question with yes. */
  readonly yes: boolean;
  readonly acceptParameters: "resend" | "keep" | null;
  /** Jobs that are not part of this run and failed when they last ran: what comes after them is skipped. */
  readonly failedBefore?: readonly string[];
  /** Asks the user; absent where nobody can answer. */
  readonly confirm?: (question: string) => Promise<boolean>;
}
