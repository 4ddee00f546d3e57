import { outOfCapacity, outOfCredits, type Refusal, tooFast } from "./http/answer.ts";

/** Remaining capacity of the organization, and the 402 that refuses more (section 7.2). */
export interface Capacity {
  /** Records left; null without a limit. Goes down with what is billed. */
  recordsLeft: number | null;
  code: "insufficient_record_capacity" | "insufficient_credits";
}

/** Refuses records that a capacity can't cover; null if it can. */
export function checkRecords({ recordsLeft, code }: Capacity, records: number): Refusal | null {
  if (recordsLeft === null || records <= recordsLeft) return null;
  return code === "insufficient_credits" ? outOfCredits(recordsLeft) : outOfCapacity(recordsLeft, records);
}

/** Limit of requests per second, in bursts of one second at most. */
export type Rate = ReturnType<typeof createRate>;

/** Starts without a limit. */
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

/** True for a key without a user, with which asynchronous person search is refused (section 5): `…organization-only`. */
export function isOrganizationOnly(key: unknown): boolean {
  return typeof key === "string" && /(^|-)organization-only$/.test(key);
}

/** Organization of a key: NAME for `org-NAME` and `org-NAME-…`, otherwise {@link HOME_ORGANIZATION}. */
export function organizationOf(key: unknown): string {
  const name = typeof key === "string" ? /^org-([^-]+)/.exec(key)?.[1] : undefined;
  return name ?? HOME_ORGANIZATION;
}
