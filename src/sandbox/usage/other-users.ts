import { BASE_DAY } from "../population/calendar.ts";
import { below, chance, hash, type HashKey, hashKey, hashText } from "../population/hash.ts";
import type { CountedCalls, Counts } from "./counts.ts";

/** What the other users of an organization did: a pure function of seed, organization, subject and day. */
export interface OtherUsers {
  /** Their calls on a UTC day as they are counted at `nowMs`; late ones and corrections come in time. */
  callsOn(subject: string, day: number, nowMs: number): readonly CountedCalls[];
}

/** Nobody used the service before. */
export const FIRST_DAY_OF_USE = BASE_DAY - 400;
const DAY_MS = 86_400_000;
const QUARTER_MS = DAY_MS / 96;
const MOST_CALLS = 4;
/** Kept in memory; the oldest go first. */
const KEPT_DAYS = 20_000;

/** Some calls of one quarter of an hour. */
interface Event {
  readonly atMs: number;
  readonly counts: Readonly<Counts>;
  /** Counted from then on. */
  readonly reportedMs: number;
  /** Counted wrongly, `factor` times, until then. */
  readonly correctedMs: number;
  readonly factor: number;
}

/** Most late counts are there after three days; a few take weeks, so that even final ones are corrected. */
function delayOf(bits: number, share: number, lateShare: number): number {
  if (!chance(bits, share)) return 0;
  const spread = below(Math.imul(bits, 0x2c1b3c6d) >>> 0, DAY_MS);
  return chance(bits, share * lateShare) ? 4 * DAY_MS + spread * 16 : spread * 2.9;
}

function eventsOf(key: HashKey, day: number): readonly Event[] {
  const isWeekend = (day + 4) % 7 === 0 || (day + 4) % 7 === 6;
  const most = isWeekend ? 1 : MOST_CALLS;
  return Array.from({ length: below(hash(key, day, 0), most + 1) }, (_, i) => {
    const ask = (question: number) => hash(key, day, 1 + i * 16 + question);
    const quarter = below(ask(0), 96);
    const requests = 1 + below(ask(1), 12);
    const records = requests * (1 + below(ask(2), 400));
    const resolvable = Math.floor(records * (0.9 + below(ask(3), 100) / 1000));
    const matched = Math.floor(resolvable * (0.5 + below(ask(4), 400) / 1000));
    // Within its quarter of an hour.
    const atMs = day * DAY_MS + quarter * QUARTER_MS + below(ask(5), QUARTER_MS);
    return {
      atMs,
      counts: { requests, records, resolvable, matched },
      reportedMs: atMs + delayOf(ask(6), 0.3, 0.15),
      correctedMs: atMs + delayOf(ask(7), 0.25, 0.2),
      factor: chance(ask(8), 0.7) ? 0.5 : 2,
    };
  });
}

function scaled({ requests, records, resolvable, matched }: Readonly<Counts>, factor: number): Counts {
  return {
    requests: Math.ceil(requests * factor),
    records: Math.ceil(records * factor),
    resolvable: Math.ceil(resolvable * factor),
    matched: Math.ceil(matched * factor),
  };
}

/** Makes the other users of one organization. */
export function createOtherUsers(seed: number, organization: string): OtherUsers {
  const kept = new Map<string, readonly Event[]>();
  const keys = new Map<string, HashKey>();
  const keyOf = (subject: string): HashKey => {
    const key = keys.get(subject) ?? hashKey(seed * 7919 + (hashText(`${organization} ${subject}`)[0] ?? 0));
    keys.set(subject, key);
    return key;
  };
  const eventsOn = (subject: string, day: number): readonly Event[] => {
    const name = `${subject} ${day}`;
    let events = kept.get(name);
    if (!events) {
      events = day < FIRST_DAY_OF_USE ? [] : eventsOf(keyOf(subject), day);
      kept.set(name, events);
      const oldest = kept.size > KEPT_DAYS ? kept.keys().next().value : undefined;
      if (oldest !== undefined) kept.delete(oldest);
    }
    return events;
  };
  return {
    callsOn: (subject, day, nowMs) =>
      eventsOn(subject, day)
        .filter(({ atMs, reportedMs }) => atMs <= nowMs && reportedMs <= nowMs)
        .map(({ atMs, counts, correctedMs, factor }) => ({
          atMs,
          counts: nowMs < correctedMs ? scaled(counts, factor) : counts,
        })),
  };
}
