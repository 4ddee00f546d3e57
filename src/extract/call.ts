import type { Batch } from "./batch.ts";
import type { HttpReply } from "./http-client.ts";

/** A batch that is about to be sent. */
export interface PlannedCall<T> {
  /** UUID. */
  readonly callId: string;
  readonly batch: Batch<T>;
  readonly items: readonly T[];
  /** Number of calls that will have carried its records, this one included. */
  readonly attempt: number;
  readonly plannedAtMs: number;
  /** No other call is in flight, so that nothing can be given back to a budget. */
  readonly isAlone: boolean;
}

/** A call that came to an end. */
export interface EndedCall<T> {
  /** Method and path. */
  readonly endpoint: string;
  readonly callId: string;
  readonly batch: Batch<T>;
  readonly items: readonly T[];
  /** By item: earlier calls that may have been charged for it without giving its result. */
  readonly doubts: readonly number[];
  readonly attempt: number;
  readonly startedAtMs: number;
  readonly milliseconds: number;
  readonly reply: HttpReply;
  /** It was sent alone, see capacity.ts. */
  readonly wasTight: boolean;
}
