import type { z } from "zod";
import type { FeedJobConfig } from "../config/config.ts";
import type { FreeCall, FreeReply } from "../extract/free-call.ts";
import type {
  CheckpointMove,
  FeedUpsert,
  StoredCheckpoint,
  UpsertResult,
} from "../load/feeds/feed-commit.ts";
import type { PlannedPush } from "../load/feeds/push.ts";
import type { CounterDelta, LedgerEntry, RunRef } from "../load/lookup.ts";
import type { Drift } from "../schemas/drift.ts";
import type { Outage } from "./outage.ts";
import type { JobServices, RunRequest } from "./services.ts";

/** What a feed hands to its commit beside the books, which are added to it. */
export interface FeedRows {
  readonly upserts?: readonly FeedUpsert[];
  readonly checkpoints?: readonly CheckpointMove[];
  readonly counters?: CounterDelta;
  readonly drift?: readonly Drift[];
  readonly organization?: string | undefined;
}

/** The books that a commit has to take along: attempts and counters since the last one. */
export interface FeedBooks {
  readonly run: RunRef;
  /** The same for every try of this commit. */
  readonly commitId: string;
  readonly ledger: readonly LedgerEntry[];
  readonly counters: CounterDelta;
}

/** What a feed works with: the services, with the bookkeeping of its run behind them. */
export interface FeedContext<J extends FeedJobConfig = FeedJobConfig>
  extends Pick<JobServices, "config" | "db" | "clock" | "log" | "signal" | "progress"> {
  readonly job: J;
  readonly run: RunRef;
  readonly request: RunRequest;
  /** Checkpoints as the run found them, by stream; also with `--full-refresh`, which reads everything again all the same. */
  readonly checkpoints: ReadonlyMap<string, StoredCheckpoint>;
  /** Waits out a warehouse that can't be reached. */
  readonly outage: Outage;
  /** Makes a free call; its attempts wait for the next commit. Throws when the job has been told to stop. */
  call<T>(call: FreeCall<T>): Promise<FreeReply<T>>;
  /** Commits rows together with all attempts that were made since the last commit. */
  commit(rows: FeedRows): Promise<readonly UpsertResult[]>;
  /** The same for what has a method of its own in the warehouse. */
  commitWith<Result extends { readonly rowsWritten: number }>(
    counters: CounterDelta,
    work: (books: FeedBooks) => Promise<Result>,
  ): Promise<Result>;
  /** Adds to the counters of the next commit, or of the run's end. */
  count(counters: CounterDelta): void;
}

/** What a forecast goes by: it changes nothing, and calls nobody. */
export interface ForecastContext<J extends FeedJobConfig = FeedJobConfig>
  extends Pick<JobServices, "config" | "db" | "clock"> {
  readonly job: J;
  readonly checkpoints: ReadonlyMap<string, StoredCheckpoint>;
  /** Members that segments will have once the jobs that come before in the same plan are done, by the job that fills them. */
  readonly sizesToCome: ReadonlyMap<string, number>;
}

/** What a run of a feed would do, as far as that can be told without a call. */
export interface FeedForecast {
  readonly calls: number;
  /** PIDs that would be sent to be added (`segment_push`); 0 for a feed that is only read. */
  readonly toSend: number;
  /** What a push would find; absent for a feed that is only read, and for a query that can't be read yet. */
  readonly push?: {
    readonly found: PlannedPush;
    /** Members that would be removed, beside `toSend`. */
    readonly toRemove: number;
    /** Members that the segment will have, about. */
    readonly sizeToCome: number;
  };
  /** What the figures don't tell, as phrases. */
  readonly remarks?: readonly string[];
}

/** A type of job that keeps a free feed: what its file declares. */
export interface FeedJobType<J extends FeedJobConfig = FeedJobConfig> {
  /** Calls that it makes, to be tried by `check`. */
  readonly endpoints: readonly {
    readonly name: string;
    readonly method: "GET" | "POST";
    readonly path: string;
  }[];
  /** Reads, flattens, writes. Throws a StopJobError when something of it could not be done. */
  run(context: FeedContext<J>): Promise<void>;
  /** What a cursor of its checkpoints means. */
  readonly cursorDoc: string;
  /** What a cursor is: by this it is read, and what users set is checked. */
  readonly cursor: z.ZodObject;
  /** One that users may set. */
  readonly exampleCursor: object;
  /** The streams that a job goes by, as far as they are known. */
  streams(job: J, services: Pick<JobServices, "config" | "db">): Promise<readonly string[]>;
  /** Tells what {@link run} would do; throws a StopJobError where that would fail at once. */
  forecast(context: ForecastContext<J>): FeedForecast | Promise<FeedForecast>;
}
