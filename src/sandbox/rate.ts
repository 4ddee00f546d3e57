import { tooFast } from "./faults/refusals.ts";
import type { Refusal } from "./http/outcome.ts";

/** Limits requests per second, and refuses the others with 429. */
export interface Rate {
  /** Requests per second, in bursts of one second at most; null without a limit. */
  requestsPerSecond: number | null;
  /** `Retry-After` of a refusal; null for none. */
  retryAfterSeconds: number | null;
  /** Counts a request that arrives now; null if it is within the limit. */
  take(): Refusal | null;
}

/** Starts without a limit. */
export function createRate(): Rate {
  let available = 0;
  let countedAtMs = Number.NEGATIVE_INFINITY;
  return {
    requestsPerSecond: null,
    retryAfterSeconds: null,
    take() {
      const { requestsPerSecond, retryAfterSeconds } = this;
      if (requestsPerSecond === null) return null;
      const nowMs = performance.now();
      const gained = ((nowMs - countedAtMs) / 1000) * requestsPerSecond;
      available = Math.min(Math.max(1, requestsPerSecond), available + gained);
      countedAtMs = nowMs;
      if (available < 1) {
        return tooFast(retryAfterSeconds === null ? {} : { "retry-after": String(retryAfterSeconds) });
      }
      available -= 1;
      return null;
    },
  };
}
