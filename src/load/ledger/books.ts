import type { RunCounter } from "../../schemas/ops.ts";

/** One attempt of a call, as the ledger keeps it. */
export interface LedgerEntry {
  readonly callId: string;
  readonly endpoint: string;
  readonly apiRequestId: string | null;
  readonly startedAt: string;
  readonly requestCompletedAt: string | null;
  readonly milliseconds: number;
  readonly httpStatus: number | null;
  readonly attempt: number;
  /** The service may have seen it: false when no connection came about. */
  readonly isSent: boolean;
  readonly recordsSent: number;
  readonly recordsMatched: number | null;
  readonly responseBytes: number;
  readonly possiblyBilled: boolean;
  /** Records that an earlier call without an answer may have been charged for as well. */
  readonly possiblyBilledTwice: number;
  /** It was answered, but not for all of its records: the others may have been charged for as well. */
  readonly leavesOut?: boolean;
}

/** Who made a call, as the ledger names it. */
export type Asker = Pick<RunRef, "runId" | "job">;

/** What one run of one job is called. */
export interface RunRef {
  readonly runId: string;
  readonly job: string;
  readonly jobType: string;
  /** `I/N`; `0/1` without shards. */
  readonly shard: string;
  /** Of the lock that the run holds on job and shard: nothing is committed for it under an older one. */
  readonly epoch: number;
}

/** Counters to add to the run's. */
export type CounterDelta = Partial<Record<RunCounter, number>>;

/** Sums several additions. */
export function sumOf(deltas: readonly CounterDelta[]): CounterDelta {
  const sum: Record<string, number> = {};
  for (const delta of deltas) {
    for (const [name, value] of Object.entries(delta)) sum[name] = (sum[name] ?? 0) + value;
  }
  return sum;
}
