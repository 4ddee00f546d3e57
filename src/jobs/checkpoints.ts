import { randomUUID } from "node:crypto";
import type { JobConfig } from "../config/config.ts";
import { isFeedJob } from "../config/job-kinds.ts";
import { LockLostError } from "../errors.ts";
import type { CheckpointMove } from "../load/feed-warehouse.ts";
import type { Warehouse } from "../load/warehouse.ts";
import { bindFeed } from "./feed-types.ts";
import { holdJob } from "./hold-job.ts";
import type { JobServices } from "./services.ts";
import { shardText, wholeInput } from "./shard.ts";

/** The document of `checkpoint --json`. */
export interface CheckpointReport {
  readonly job: string;
  readonly type: string;
  /** What a cursor of this type of job means. */
  readonly meaning: string;
  readonly checkpoints: readonly {
    readonly stream: string;
    readonly cursor: unknown;
    readonly updated_at: string;
    readonly run_id: string;
  }[];
}

const OF_LOOKUPS =
  "value: the highest cursor value of the input that was seen; full_at: when all rows were last compared. It only narrows the search " +
  "for changes; without it all rows are compared";

/** Reads the checkpoints of a job; changes nothing. */
export async function readCheckpointReport(
  warehouse: Pick<Warehouse, "readCheckpoints"> | null,
  job: JobConfig,
): Promise<CheckpointReport> {
  const stored = warehouse === null ? [] : await warehouse.readCheckpoints(job.name);
  return {
    job: job.name,
    type: job.type,
    meaning: isFeedJob(job) ? bindFeed(job).cursorDoc : OF_LOOKUPS,
    checkpoints: stored.map(({ stream, cursor, updatedAt, runId }) => ({
      stream,
      cursor,
      updated_at: updatedAt,
      run_id: runId,
    })),
  };
}

/** Moves or forgets checkpoints of a job, while no process runs it. */
export async function moveCheckpoints(
  services: Pick<JobServices, "config" | "warehouse" | "clock" | "log" | "signal" | "progress">,
  job: JobConfig,
  runId: string,
  moves: readonly CheckpointMove[],
): Promise<void> {
  const wanted = { runId, job: job.name, jobType: job.type, shard: shardText(wholeInput) };
  const hold = await holdJob(services, wanted, { wait: false });
  if (hold.kind === "refused") throw new LockLostError(`${hold.message} Its checkpoints stay as they are.`);
  const { run, release } = hold.held;
  try {
    await services.warehouse.commitFeed({
      run,
      commitId: randomUUID(),
      ledger: [],
      drift: [],
      counters: {},
      upserts: [],
      checkpoints: moves,
    });
  } finally {
    await release();
  }
}
