/** What a service counts about calls (section 2.10). */
export interface Counts {
  requests: number;
  records: number;
  resolvable: number;
  matched: number;
}

/** Nothing counted yet. */
export const noCounts = (): Counts => ({ requests: 0, records: 0, resolvable: 0, matched: 0 });

/** Adds to a sum in place; `times` -1 takes away. */
export function addCounts(sum: Counts, more: Readonly<Counts>, times = 1): void {
  sum.requests += more.requests * times;
  sum.records += more.records * times;
  sum.resolvable += more.resolvable * times;
  sum.matched += more.matched * times;
}

/** Calls at one moment, as they are counted at the moment of asking. */
export interface CountedCalls {
  /** Milliseconds since the epoch. */
  readonly atMs: number;
  readonly counts: Readonly<Counts>;
}
