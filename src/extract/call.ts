import type { Batch } from "./batch.ts";
import type { HttpReply } from "./http-client.ts";

/** Batch about to be sent. */
export interface PlannedCall<T> {
  /** UUID. */
  readonly callId: string;
  readonly batch: Batch<T>;
  readonly items: readonly T[];
  /** Number of calls that contained these records, including this one. */
  readonly attempt: number;
  readonly plannedAtMs: number;
  /** True if no other call is in flight, so that no reservation can be released. */
  readonly isAlone: boolean;
}

/** Finished call. */
export interface EndedCall<T> {
  /** Method and path. */
  readonly endpoint: string;
  readonly callId: string;
  readonly batch: Batch<T>;
  readonly items: readonly T[];
  /** Per item: number of earlier calls that may have billed it without returning its result. */
  readonly doubts: readonly number[];
  readonly attempt: number;
  readonly startedAtMs: number;
  readonly milliseconds: number;
  readonly reply: HttpReply;
  /** True if it was sent alone; see capacity.ts. */
  readonly wasTight: boolean;
}
