import { addCounts, type CountedCalls, type Counts, noCounts } from "./counts.ts";
import { QUARTER_MS } from "./local-time.ts";

/** What the sandbox itself served, by organization, subject and quarter of an hour of the world's time. */
export interface ServedCalls {
  count(organization: string, subject: string, atMs: number, counts: Readonly<Counts>): void;
  /** The calls from one instant (inclusive) to another (exclusive), each quarter at its last call. */
  between(organization: string, subject: string, fromMs: number, toMs: number): readonly CountedCalls[];
  /** Plain data to keep, and to begin with again. */
  state(): readonly ServedQuarter[];
  restore(quarters: readonly ServedQuarter[]): void;
  reset(): void;
}

/** The calls of one quarter of an hour. */
export interface ServedQuarter extends CountedCalls {
  readonly organization: string;
  readonly subject: string;
}

interface Quarter {
  atMs: number;
  readonly counts: Counts;
}

/** Makes an empty account. */
export function createServedCalls(): ServedCalls {
  const bySubject = new Map<string, Map<number, Quarter>>();
  const quartersOf = (organization: string, subject: string): Map<number, Quarter> => {
    const name = JSON.stringify([organization, subject]);
    const quarters = bySubject.get(name) ?? new Map<number, Quarter>();
    bySubject.set(name, quarters);
    return quarters;
  };
  const calls: ServedCalls = {
    count(organization, subject, atMs, counts) {
      const quarters = quartersOf(organization, subject);
      const number = Math.floor(atMs / QUARTER_MS);
      const quarter = quarters.get(number) ?? { atMs, counts: noCounts() };
      addCounts(quarter.counts, counts);
      quarter.atMs = Math.max(quarter.atMs, atMs);
      quarters.set(number, quarter);
    },
    between: (organization, subject, fromMs, toMs) =>
      [...quartersOf(organization, subject).values()].filter(({ atMs }) => atMs >= fromMs && atMs < toMs),
    state: () =>
      [...bySubject].flatMap(([name, quarters]) => {
        // Written by quartersOf.
        const [organization, subject] = JSON.parse(name) as [string, string];
        return [...quarters.values()].map((quarter) => ({ organization, subject, ...quarter }));
      }),
    restore(quarters) {
      for (const { organization, subject, atMs, counts } of quarters) {
        calls.count(organization, subject, atMs, counts);
      }
    },
    reset: () => bySubject.clear(),
  };
  return calls;
}
