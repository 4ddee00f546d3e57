import { LimitReachedError, StopJobError } from "../errors.ts";
import type { Dispatch, ExhaustedBatch, FinishedCall } from "./dispatch.ts";

/** Remembers why a lookup has to end, while its calls in flight are still handed out. */
export interface Stop<T> {
  /** Makes no further calls; of several reasons the weightiest is thrown in the end. */
  because(reason: unknown): void;
  /** The next call that ended; null at the end. What the source or a call threw becomes a reason. */
  next(): Promise<FinishedCall<T> | ExhaustedBatch<T> | null>;
  throwIfStopped(): void;
}

/** A failure outranks a limit, and what ends the run outranks what ends the job. */
function weightOf(reason: unknown): number {
  if (reason instanceof LimitReachedError) return 1;
  return reason instanceof StopJobError ? 2 : 3;
}

/** Starts without a reason. */
export function createStop<T>(dispatch: Dispatch<T>): Stop<T> {
  let stopped: { readonly reason: unknown } | null = null;

  function because(reason: unknown): void {
    if (stopped === null || weightOf(reason) > weightOf(stopped.reason)) stopped = { reason };
    dispatch.stop();
  }

  return {
    because,
    async next() {
      try {
        return await dispatch.next();
      } catch (error) {
        because(error);
        return null;
      }
    },
    throwIfStopped() {
      if (stopped) throw stopped.reason;
    },
  };
}
