import type { Faults } from "./faults/plan.ts";
import { outOfCapacity, outOfCredits, type Refusal, tooFast } from "./http/answer.ts";
import type { Ledger } from "./ledger.ts";
import { DAY_MS, dayOf } from "./population/calendar.ts";
import type { People } from "./population/people.ts";
import type { Searches } from "./search/searches.ts";
import type { Segments } from "./segments/segments.ts";
import type { Usage } from "./usage/usage.ts";

/** Receives events of the sandbox. */
export interface Log {
  debug(fields: object, event: string): void;
  warn(fields: object, event: string): void;
  error(fields: object, event: string): void;
}

/** State of a running sandbox; passed to every route. */
export interface World {
  readonly seed: number;
  readonly people: People;
  readonly clock: WorldClock;
  readonly segments: Segments;
  readonly searches: Searches;
  readonly usage: Usage;
  readonly ledger: Ledger;
  readonly faults: Faults;
  readonly capacity: Capacity;
  readonly rate: Rate;
  /** The only key accepted; null accepts any but those that start with `revoked`. */
  readonly apiKey: string | null;
  readonly latencyMs: number;
  readonly membersPerPage: number;
  /** True if answers are compressed for clients that accept gzip. */
  readonly compresses: boolean;
  readonly log: Log;
}

export type WorldClock = ReturnType<typeof createWorldClock>;

/** Makes a clock that shows real time until it is moved by some days. */
export function createWorldClock() {
  const clock = {
    movedDays: 0,
    /** Milliseconds since the epoch. */
    nowMs: () => Date.now() + clock.movedDays * DAY_MS,
    /** Day number (see `population/calendar.ts`). */
    today: () => dayOf(clock.nowMs()),
  };
  return clock;
}

/** Endings of instants (section 2.1): `Z`, an offset, or no zone. */
const ENDINGS = { z: "Z", offset: "+00:00", zoneless: "" };
export type StampStyle = keyof typeof ENDINGS;

/** ISO 8601 with six fractional digits; `microseconds` (0 to 999) are those below the millisecond. */
export function stampText(timeMs: number, microseconds: number, style: StampStyle): string {
  const iso = new Date(timeMs).toISOString();
  return iso.slice(0, 23) + String(microseconds).padStart(3, "0") + ENDINGS[style];
}

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
