import type { Batch } from "./batch.ts";
import type { HttpReply } from "./http-client.ts";

/** A call that came to an end, its body not parsed yet. */
export interface FinishedCall<T> {
  readonly kind: "finished";
  readonly batch: Batch<T>;
  readonly callId: string;
  /** How many times its records have been asked for, this call included. */
  readonly attempt: number;
  readonly startedAtMs: number;
  readonly milliseconds: number;
  readonly reply: HttpReply;
  /** It was made alone, see capacity.ts. */
  readonly wasTight: boolean;
}

/** Records that took all the calls that one batch may cost. */
export interface ExhaustedBatch<T> {
  readonly kind: "exhausted";
  readonly batch: Batch<T>;
}
