/** Owner of a call in the ledger. */
export type Asker = Pick<RunRef, "runId" | "job">;

/** Identity of one run of one job. */
export interface RunRef {
  readonly runId: string;
  readonly job: string;
  readonly jobType: string;
  /** `I/N`; `0/1` without shards. */
  readonly shard: string;
  /** Epoch of the run's lock; commits under an older one are rejected. */
  readonly epoch: number;
}
