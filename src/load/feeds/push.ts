import type { FeedCommit } from "./feed-commit.ts";
import type { InputSource } from "../inputs/input-source.ts";

/** What a query gives, beside what is known of the segment. */
export interface PushCounts {
  /** Rows of the query. */
  readonly read: number;
  /** Rows without a PID. */
  readonly missing: number;
  /** Rows of a PID that another row has. */
  readonly duplicate: number;
  /** Distinct PIDs of people who were erased. */
  readonly suppressed: number;
  /** Distinct PIDs that are members already, or that the service doesn't know. */
  readonly unchanged: number;
  readonly toAdd: number;
  /** Members that the job added and that the query no longer gives. */
  readonly toRemove: number;
  /** Members that the job added. */
  readonly own: number;
}

/** A change of the segment under way. */
export type PushChange = "adding" | "removing";

/** Who is to be changed: `again` are known to be members, and added once more in case others removed them. */
export type PushList = PushChange | "again";

/** What the service made of a change. */
export interface PushOutcome {
  /** PIDs of the change that it doesn't know; each gets a reject. Open rejects of the others are resolved. */
  readonly invalid: readonly string[];
  /** PIDs that this job added, of those that are members now; null for all of them. */
  readonly own: ReadonlySet<string> | null;
  readonly apiRequestId: string | null;
  /** How the rejects are worded. */
  readonly rejectMessage: string;
}

/** The difference between what a query gives and what is known of its segment. */
export interface SegmentPush {
  /** When the oldest add was begun of which nobody knows what came of it, ISO 8601; null for none. */
  readonly uncertainSince: string | null;
  /** {@link PushOptions.again} as a moment, ISO 8601; null for null. */
  readonly againSince: string | null;
  /** Decides what came of those: `own` were added, the others not. To be called before {@link count} where there are some. */
  settleUncertain(commit: FeedCommit, own: ReadonlySet<string>): Promise<{ readonly rowsWritten: number }>;
  count(): Promise<PushCounts>;
  /** PIDs to add or remove behind one, in their order. Throws a StopJobError when the work table was lost, as {@link count} does. */
  next(list: PushList, after: string, limit: number): Promise<readonly string[]>;
  /**
   * Notes a change before it is sent; durable once this resolves. Returns the PIDs that it has noted, which alone may be sent:
   * the others are of people who were erased since the query was read.
   * @param since a moment before it, by the service's clock.
   */
  begin(change: PushChange, pids: readonly string[], since: string): Promise<readonly string[]>;
  finish(
    commit: FeedCommit,
    change: PushChange,
    pids: readonly string[],
    outcome: PushOutcome,
  ): Promise<{ readonly rowsWritten: number }>;
  /** Drops the work table; idempotent. */
  close(): Promise<void>;
}

/** What is pushed where. */
export interface PushOptions {
  readonly segmentId: string;
  /** Key: `service_pid`. */
  readonly source: InputSource;
  /**
   * Add everybody once more who was last added before this moment, by the warehouse's clock: ISO 8601, `now`, or null for
   * nobody. A later pass with the same moment goes on with the earlier one.
   */
  readonly again: string | null;
}

/** A push that is only planned. */
export interface PushPlan extends Omit<PushOptions, "segmentId"> {
  readonly job: string;
  /** Null for one that is still to be made. */
  readonly segmentId: string | null;
}

/** What a push would find. */
export interface PlannedPush extends PushCounts {
  /** Of `toAdd` those who are not known as members; the others are added again. */
  readonly newcomers: number;
  /** Adds of an earlier run of which nobody knows what came of them; those that are wanted are part of `toAdd`. */
  readonly uncertain: number;
}
