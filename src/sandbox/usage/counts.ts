/** Counts of calls (section 2.10). */
export interface Counts {
  readonly requests: number;
  readonly records: number;
  readonly resolvable: number;
  readonly matched: number;
}

/** Calls at one moment. */
export interface CountedCalls {
  /** Milliseconds since the epoch. */
  readonly atMs: number;
  readonly counts: Counts;
}

/** Changes each count. */
export function mapCounts(counts: Counts, change: (count: number, name: keyof Counts) => number): Counts {
  return {
    requests: change(counts.requests, "requests"),
    records: change(counts.records, "records"),
    resolvable: change(counts.resolvable, "resolvable"),
    matched: change(counts.matched, "matched"),
  };
}

/** Sums counts. */
export function sumOf(calls: readonly CountedCalls[]): Counts {
  const none = { requests: 0, records: 0, resolvable: 0, matched: 0 };
  return calls.reduce<Counts>(
    (sum, { counts }) => mapCounts(sum, (count, name) => count + counts[name]),
    none,
  );
}
