import type { RunCounter } from "../../schemas/ops.ts";

/** One attempt of a call in the ledger. */
export interface LedgerEntry {
  readonly callId: string;
  readonly endpoint: string;
  readonly apiRequestId: string | null;
  readonly startedAt: string;
  readonly requestCompletedAt: string | null;
  readonly milliseconds: number;
  readonly httpStatus: number | null;
  readonly attempt: number;
  /** True if the service may have received it; false if the connection failed. */
  readonly isSent: boolean;
  readonly recordsSent: number;
  readonly recordsMatched: number | null;
  readonly responseBytes: number;
  readonly possiblyBilled: boolean;
  /** Records that may also have been billed by an earlier unanswered call. */
  readonly possiblyBilledTwice: number;
  /** True if the answer omits some records, which may also have been billed. */
  readonly leavesOut?: boolean;
}

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

/** Additions to the run's counters. */
export type CounterDelta = Partial<Record<RunCounter, number>>;

/** Sums several additions. */
export function sumOf(deltas: readonly CounterDelta[]): CounterDelta {
  const sum: Record<string, number> = {};
  for (const delta of deltas) {
    for (const [name, value] of Object.entries(delta)) sum[name] = (sum[name] ?? 0) + value;
  }
  return sum;
}
