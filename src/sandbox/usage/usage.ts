import { DAY_MS, dayOf } from "../population/calendar.ts";
import { hashKey, hashText } from "../population/hash.ts";
import type { WorldClock } from "../world-clock.ts";
import { type CountedCalls, type Counts, sumOf } from "./counts.ts";
import { QUARTER_MS } from "./local-time.ts";
import { callsOfOthers, FIRST_DAY_OF_USE } from "./other-users.ts";

/** Calls that the sandbox served in one quarter of an hour, at the time of the last one. */
interface ServedQuarter extends CountedCalls {
  readonly organization: string;
  readonly subject: string;
}

/** Endpoints in `GET /usage` (section 2.10); other users never call the last two. */
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

/** Usage by organization: calls to this sandbox, and a made-up history of other users. */
export interface Usage {
  /** Counts a call to the sandbox. */
  count(organization: string, subject: string, atMs: number, counts: Readonly<Counts>): void;
  /** Calls of a subject from one instant (inclusive) to another (exclusive), as they are known now. */
  calls(organization: string, subject: string, fromMs: number, toMs: number): readonly CountedCalls[];
  /** All calls to the sandbox. */
  served(): readonly ServedQuarter[];
  reset(): void;
  /** First use of the service. */
  readonly beginMs: number;
}

/** Creates the usage of all organizations. */
export function createUsage(seed: number, clock: WorldClock): Usage {
  const quarters = new Map<string, ServedQuarter>();
  return {
    count(organization, subject, atMs, counts) {
      const name = JSON.stringify([organization, subject, Math.floor(atMs / QUARTER_MS)]);
      const known = quarters.get(name);
      const call = { atMs, counts };
      quarters.set(name, {
        organization,
        subject,
        atMs: Math.max(atMs, known?.atMs ?? atMs),
        counts: sumOf(known ? [known, call] : [call]),
      });
    },
    calls(organization, subject, fromMs, toMs) {
      const nowMs = clock.nowMs();
      const endMs = Math.min(toMs, nowMs + 1);
      // Others are counted once a quarter, so that two readings in a row are equal.
      const countedMs = Math.floor(nowMs / QUARTER_MS) * QUARTER_MS;
      const found: CountedCalls[] = [...quarters.values()].filter(
        (call) => call.organization === organization && call.subject === subject,
      );
      const lastDay = UNUSED.has(subject) ? -1 : dayOf(endMs - 1);
      const key = hashKey(seed * 7919 + hashText(`${organization} ${subject}`)[0]);
      for (let day = Math.max(dayOf(fromMs), FIRST_DAY_OF_USE); day <= lastDay; day++) {
        found.push(...callsOfOthers(key, day, countedMs));
      }
      return found.filter(({ atMs }) => atMs >= fromMs && atMs < endMs);
    },
    served: () => [...quarters.values()],
    reset: () => quarters.clear(),
    beginMs: FIRST_DAY_OF_USE * DAY_MS,
  };
}
