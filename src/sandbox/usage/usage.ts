import { dayOf } from "../population/calendar.ts";
import type { WorldClock } from "../world-clock.ts";
import type { CountedCalls } from "./counts.ts";
import { QUARTER_MS } from "./local-time.ts";
import { createOtherUsers, FIRST_DAY_OF_USE, type OtherUsers } from "./other-users.ts";
import { createServedCalls, type ServedCalls } from "./served-calls.ts";

/** Paths that the service counts, as `GET /usage` names them (section 2.10); the last two are used by nobody else. */
export const COUNTED_ENDPOINTS = [
  "v1/resolve",
  "v2/resolve",
  "v1/enrich",
  "v2/enrich",
  "v2/validate_emails",
  "v2/segments/create",
  "v2/segments/members",
  "v2/segments/members/add",
  "v2/segments/members/remove",
  "v2/segments/signals/deaths",
  "v1/get_li_contact_info",
  "v2/infer_record_country",
] as const;
const UNUSED: ReadonlySet<string> = new Set(["v1/get_li_contact_info", "v2/infer_record_country"]);

/** How much an organization used the service, as it is known now: its own calls here, and a history of other users. */
export interface Usage {
  readonly served: ServedCalls;
  /** Calls of a subject from one instant (inclusive) to another (exclusive), none of them in the future. */
  calls(organization: string, subject: string, fromMs: number, toMs: number): readonly CountedCalls[];
  /** Nobody used the service before that instant. */
  readonly beginMs: number;
}

const DAY_MS = 86_400_000;

/** Makes the usage of all organizations. */
export function createUsage(seed: number, clock: WorldClock): Usage {
  const served = createServedCalls();
  const others = new Map<string, OtherUsers>();
  const othersOf = (organization: string): OtherUsers => {
    const users = others.get(organization) ?? createOtherUsers(seed, organization);
    others.set(organization, users);
    return users;
  };
  return {
    served,
    calls(organization, subject, fromMs, toMs) {
      const nowMs = clock.nowMs();
      const endMs = Math.min(toMs, nowMs + 1);
      const found = [...served.between(organization, subject, fromMs, endMs)];
      if (UNUSED.has(subject)) return found;
      const users = othersOf(organization);
      const lastDay = dayOf(endMs - 1);
      for (let day = Math.max(dayOf(fromMs), FIRST_DAY_OF_USE); day <= lastDay; day++) {
        // Others are counted every quarter of an hour, so that what is read twice in a row is the same.
        const countedMs = Math.floor(nowMs / QUARTER_MS) * QUARTER_MS;
        for (const calls of users.callsOn(subject, day, countedMs)) {
          if (calls.atMs >= fromMs && calls.atMs < endMs) found.push(calls);
        }
      }
      return found;
    },
    beginMs: FIRST_DAY_OF_USE * DAY_MS,
  };
}
