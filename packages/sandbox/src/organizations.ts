import { outOfCapacity, outOfCredits, type Refusal, tooFast } from "./http/answer.ts";

export type Capacity = ReturnType<typeof createCapacity>;

/** Makes the remaining capacity of the organization, and the 402 that refuses more (section 7.2). */
export function createCapacity() {
  const capacity = {
    /** Records left; null without a limit. */
    recordsLeft: null as number | null,
    code: "insufficient_record_capacity" as "insufficient_record_capacity" | "insufficient_credits",
    /** Refuses records that it can't cover; null if it can. */
    refuse(records: number): Refusal | null {
      const { recordsLeft, code } = capacity;
      if (recordsLeft === null || records <= recordsLeft) return null;
      return code === "insufficient_credits"
        ? outOfCredits(recordsLeft)
        : outOfCapacity(recordsLeft, records);
    },
    bill(records: number): void {
      if (capacity.recordsLeft !== null) capacity.recordsLeft -= records;
    },
  };
  return capacity;
}

/** Makes a limit of requests per second, in bursts of one second at most. */
export function createRate() {
  let available = 0;
  let countedAtMs = Number.NEGATIVE_INFINITY;
  const rate = {
    /** Null without a limit. */
    requestsPerSecond: null as number | null,
    /** `Retry-After` of a refusal; null for none. */
    retryAfterSeconds: null as number | null,
    /** Counts a request that arrives now; null if it is within the limit. */
    take(): Refusal | null {
      const { requestsPerSecond, retryAfterSeconds } = rate;
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
  return rate;
}

/** Organization of every key that doesn't name another one. */
export const HOME_ORGANIZATION = "home";

/** Organization of a key: NAME for `org-NAME` and `org-NAME-…`, otherwise {@link HOME_ORGANIZATION}. */
export function organizationOf(key: string): string {
  return /^org-([^-]+)/.exec(key)?.[1] ?? HOME_ORGANIZATION;
}
