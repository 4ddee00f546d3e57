import { BASE_DAY, DAY_MS, dayOf, type WorldClock } from "../population/calendar.ts";
import { below, chance, hash, type HashKey, hashKey, hashText } from "../population/hash.ts";

/** Counts of calls (section 2.10). */
export type Counts = Readonly<Record<"requests" | "records" | "resolvable" | "matched", number>>;

/** Calls at one moment, in milliseconds since the epoch. */
export interface CountedCalls {
  readonly atMs: number;
  readonly counts: Counts;
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
];
const UNUSED = COUNTED_ENDPOINTS.slice(-2);

/** Calls are counted by quarters of an hour; every zone of today is ahead of UTC by whole ones. */
export const QUARTER_MS = 15 * 60_000;
/** First day with calls of other users. */
const FIRST_DAY_OF_USE = BASE_DAY - 400;

export function sumOf(calls: readonly CountedCalls[]): Counts {
  const sum = { requests: 0, records: 0, resolvable: 0, matched: 0 };
  for (const { counts } of calls) {
    sum.requests += counts.requests;
    sum.records += counts.records;
    sum.resolvable += counts.resolvable;
    sum.matched += counts.matched;
  }
  return sum;
}

/** Most counts are complete after three days; a few take weeks, so that even final ones are corrected. */
function delayOf(bits: number, share: number, lateShare: number): number {
  if (!chance(bits, share)) return 0;
  const spread = below(Math.imul(bits, 0x2c1b3c6d) >>> 0, DAY_MS);
  return chance(bits, share * lateShare) ? 4 * DAY_MS + spread * 16 : spread * 2.9;
}

/** Other users' calls on a UTC day, as counted at `nowMs`; some are reported late or corrected. */
function callsOfOthers(key: HashKey, day: number, nowMs: number): readonly CountedCalls[] {
  const isWeekend = (day + 4) % 7 === 0 || (day + 4) % 7 === 6;
  const calls: CountedCalls[] = [];
  for (let i = 0; i < below(hash(key, day, 0), isWeekend ? 2 : 5); i++) {
    const ask = (question: number) => hash(key, day, 1 + i * 16 + question);
    const atMs = day * DAY_MS + below(ask(0), 96) * QUARTER_MS + below(ask(5), QUARTER_MS);
    if (atMs + delayOf(ask(6), 0.3, 0.15) > nowMs) continue;
    const requests = 1 + below(ask(1), 12);
    const records = requests * (1 + below(ask(2), 400));
    const resolvable = Math.floor(records * (0.9 + below(ask(3), 100) / 1000));
    const matched = Math.floor(resolvable * (0.5 + below(ask(4), 400) / 1000));
    // Wrong until corrected.
    const isCorrect = nowMs >= atMs + delayOf(ask(7), 0.25, 0.2);
    const factor = isCorrect ? 1 : chance(ask(8), 0.7) ? 0.5 : 2;
    const counted = (count: number) => Math.ceil(count * factor);
    calls.push({
      atMs,
      counts: {
        requests: counted(requests),
        records: counted(records),
        resolvable: counted(resolvable),
        matched: counted(matched),
      },
    });
  }
  return calls;
}

export type Usage = ReturnType<typeof createUsage>;

/** Creates the usage of all organizations: calls to this sandbox, and a made-up history of other users. */
export function createUsage(seed: number, clock: WorldClock) {
  /** Calls that the sandbox served in one quarter of an hour, at the time of the last one. */
  const quarters = new Map<
    string,
    CountedCalls & { readonly organization: string; readonly subject: string }
  >();
  return {
    beginMs: FIRST_DAY_OF_USE * DAY_MS,
    count(organization: string, subject: string, atMs: number, counts: Counts): void {
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
    /** Calls of a subject from one instant (inclusive) to another (exclusive), as they are known now. */
    calls(organization: string, subject: string, fromMs: number, toMs: number): readonly CountedCalls[] {
      const nowMs = clock.nowMs();
      const endMs = Math.min(toMs, nowMs + 1);
      // Others are counted once a quarter, so that two readings in a row are equal.
      const countedMs = Math.floor(nowMs / QUARTER_MS) * QUARTER_MS;
      const found: CountedCalls[] = [...quarters.values()].filter(
        (call) => call.organization === organization && call.subject === subject,
      );
      const lastDay = UNUSED.includes(subject) ? -1 : dayOf(endMs - 1);
      const key = hashKey(seed * 7919 + hashText(`${organization} ${subject}`)[0]);
      for (let day = Math.max(dayOf(fromMs), FIRST_DAY_OF_USE); day <= lastDay; day++) {
        found.push(...callsOfOthers(key, day, countedMs));
      }
      return found.filter(({ atMs }) => atMs >= fromMs && atMs < endMs);
    },
    /** All calls to this sandbox. */
    served: () => [...quarters.values()],
  };
}
