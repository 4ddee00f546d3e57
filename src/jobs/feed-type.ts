import type { JobConfig } from "../config/config.ts";
import type { JobDeclaration } from "../config/schema/jobs.ts";
import type { FreeCall, FreeReply } from "../extract/free-call.ts";
import type {
  CheckpointMove,
  FeedCommit,
  FeedUpsert,
  StoredCheckpoint,
  UpsertResult,
} from "../load/feeds/feed-commit.ts";
import type { CounterDelta } from "../load/lookup.ts";
import type { Drift } from "../schemas/drift.ts";
import type { JobContext } from "./job.ts";
import type { JobType } from "./job-type.ts";

/** Rows of one commit of a feed; attempts and counters are added to them. */
export interface FeedRows {
  readonly upserts?: readonly FeedUpsert[];
  readonly checkpoints?: readonly CheckpointMove[];
  readonly counters?: CounterDelta;
  readonly drift?: readonly Drift[];
  readonly organization?: string | undefined;
}

/** A feed's run. */
export interface FeedContext<J extends JobConfig = JobConfig>
  extends Pick<
    JobContext<J>,
    "config" | "db" | "clock" | "log" | "signal" | "progress" | "job" | "run" | "request" | "outage"
  > {
  /** Checkpoints at the run's start, by stream; `--full-refresh` reads everything again all the same. */
  readonly checkpoints: ReadonlyMap<string, StoredCheckpoint>;
  /** Makes a free call; its attempts are part of the next commit. Throws when the job has to stop. */
  call<T>(call: FreeCall<T>): Promise<FreeReply<T>>;
  /** Commits rows together with all attempts since the last commit. */
  commit(rows: FeedRows): Promise<readonly UpsertResult[]>;
  /** Does the same by a function of `src/load` that writes rows of its own. */
  commitBy<Result extends { readonly rowsWritten: number }>(
    rows: FeedRows,
    write: (commit: FeedCommit) => Promise<Result>,
  ): Promise<Result>;
  /** Adds to the counters of the next commit, or of the run's end. */
  count(counters: CounterDelta): void;
}

/** A type of job that makes free calls only. */
export interface FeedJobType<J extends JobConfig = JobConfig>
  extends JobDeclaration,
    Pick<JobType<J>, "endpoints" | "writes" | "checkpoints"> {
  /** Tables and queries that the job reads; none unless declared. */
  reads?: JobType<J>["reads"];
  /** Least number of calls, and the rest in words: a plan makes no call to count pages. */
  readonly plannedCalls: (job: J) => { readonly least: number; readonly more: string };
  /** Reads, flattens, writes. Throws a StopJobError if something of it could not be done. */
  run(context: FeedContext<J>): Promise<void>;
}
