import type { JobConfig } from "../config/config.ts";
import type { JobDeclaration } from "../config/schema/jobs.ts";
import type { FreeCall, FreeReply } from "../extract/free-call.ts";
import type { StoredCheckpoint } from "../load/write/checkpoints.ts";
import type { Commit, Committed } from "../load/write/commit.ts";
import type { JobContext } from "./job.ts";
import type { JobCheckpoints, JobType } from "./job-type.ts";
import type { JobPlan } from "./report/job-plan.ts";
import type { CounterDelta } from "../load/ledger/counters.ts";

/** Rows of one commit of a feed; attempts are added. */
export type FeedRows<Result = null> = Omit<Commit<Result>, "calls" | "attempted" | "sentBy" | "counters"> & {
  readonly counters?: CounterDelta;
};

/** Context of a feed's run. */
export interface FeedContext<J extends JobConfig = JobConfig>
  extends Pick<
    JobContext<J>,
    | "config"
    | "db"
    | "clock"
    | "random"
    | "log"
    | "signal"
    | "progress"
    | "job"
    | "run"
    | "request"
    | "outage"
  > {
  /** Checkpoints at the start of the run, by stream; `--full-refresh` ignores them. */
  readonly checkpoints: ReadonlyMap<string, StoredCheckpoint>;
  /** Makes a free call, whose attempts become part of the next commit. Throws if the job must stop. */
  call<T>(call: FreeCall<T>): Promise<FreeReply<T>>;
  /** Commits rows together with all attempts and counters since the last commit. */
  commit<Result = null>(rows: FeedRows<Result>): Promise<Committed<Result>>;
  /** Adds to the counters of the next commit, or of the run's end. */
  count(counters: CounterDelta): void;
}

/** Context for planning a feed. */
export type FeedPlanContext<J extends JobConfig = JobConfig> = Pick<
  FeedContext<J>,
  "db" | "clock" | "job" | "checkpoints"
>;

/** Type of a job whose calls are free, unless it reserves them itself. */
export interface FeedJobType<J extends JobConfig = JobConfig>
  extends JobDeclaration,
    Pick<JobType<J>, "endpoints" | "writes" | "remarks"> {
  readonly checkpoints: JobCheckpoints<J>;
  /** Tables and queries that the job reads; none by default. */
  reads?: JobType<J>["reads"];
  /** Minimum number of calls, and a description of the others: a plan makes no calls to count pages. */
  readonly plannedCalls: (job: J) => { readonly least: number; readonly more: string };
  /** Parts of the plan that the warehouse knows; calls as {@link plannedCalls} says, and nothing billed, by default. */
  plan?(context: FeedPlanContext<J>): Promise<Partial<JobPlan>>;
  /** Reads, flattens, writes. Throws a StopJobError if some of it failed. */
  run(context: FeedContext<J>): Promise<void>;
}
