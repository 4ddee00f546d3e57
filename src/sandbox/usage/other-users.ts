import { BASE_DAY, DAY_MS } from "../population/calendar.ts";
import { below, chance, hash, type HashKey } from "../population/hash.ts";
import { QUARTER_MS } from "./local-time.ts";
import { type CountedCalls, mapCounts } from "./counts.ts";

/** First day with calls of other users. */
export const FIRST_DAY_OF_USE = BASE_DAY - 400;

/** Calls within a quarter of an hour. */
interface Event extends CountedCalls {
  /** Not counted before. */
  readonly reportedMs: number;
  /** Counted `factor` times before. */
  readonly correctedMs: number;
  readonly factor: number;
}

/** Most counts are complete after three days; a few take weeks, so that even final ones are corrected. */
function delayOf(bits: number, share: number, lateShare: number): number {
  if (!chance(bits, share)) return 0;
  const spread = below(Math.imul(bits, 0x2c1b3c6d) >>> 0, DAY_MS);
  return chance(bits, share * lateShare) ? 4 * DAY_MS + spread * 16 : spread * 2.9;
}

function eventsOf(key: HashKey, day: number): readonly Event[] {
  const isWeekend = (day + 4) % 7 === 0 || (day + 4) % 7 === 6;
  return Array.from({ length: below(hash(key, day, 0), isWeekend ? 2 : 5) }, (_, i) => {
    const ask = (question: number) => hash(key, day, 1 + i * 16 + question);
    const requests = 1 + below(ask(1), 12);
    const records = requests * (1 + below(ask(2), 400));
    const resolvable = Math.floor(records * (0.9 + below(ask(3), 100) / 1000));
    const matched = Math.floor(resolvable * (0.5 + below(ask(4), 400) / 1000));
    const atMs = day * DAY_MS + below(ask(0), 96) * QUARTER_MS + below(ask(5), QUARTER_MS);
    return {
      atMs,
      counts: { requests, records, resolvable, matched },
      reportedMs: atMs + delayOf(ask(6), 0.3, 0.15),
      correctedMs: atMs + delayOf(ask(7), 0.25, 0.2),
      factor: chance(ask(8), 0.7) ? 0.5 : 2,
    };
  });
}

/** Other users' calls on a UTC day, as counted at `nowMs`; some are reported late or corrected. */
export function callsOfOthers(key: HashKey, day: number, nowMs: number): readonly CountedCalls[] {
  return eventsOf(key, day)
    .filter(({ atMs, reportedMs }) => atMs <= nowMs && reportedMs <= nowMs)
    .map(({ atMs, counts, correctedMs, factor }) => ({
      atMs,
      counts: nowMs < correctedMs ? mapCounts(counts, (count) => Math.ceil(count * factor)) : counts,
    }));
}
