import { hashText } from "./population/hash.ts";

/** One request, answered or deliberately not. */
interface Attempt {
  /** Number of the request from 1; requests to `/_sandbox` are not counted. */
  readonly number: number;
  readonly endpoint: string;
  /** HTTP status; the intended one if a fault kept the reply from arriving. */
  readonly status: number;
  /** Records in the request; 0 if it was refused before they were read. */
  readonly records: number;
  readonly matched: number;
  readonly billed: number;
  readonly faults: readonly string[];
}

/** Entries kept in full; older ones are in the sums. */
const RECENT = 1000;
/** A content's count is `received + billed * BILLED`. */
const BILLED = 65_536;

/** Counts of equal record contents (without `record_id`). */
function sumContents(counts: readonly number[]) {
  const billed = counts.map((count) => Math.floor(count / BILLED));
  return {
    distinct_records: counts.length,
    received_more_than_once: counts.filter((count) => count % BILLED > 1).length,
    billed_once: billed.filter((times) => times === 1).length,
    billed_more_than_once: billed.filter((times) => times > 1).length,
    /** Charges beyond the first of each content. */
    billed_again: billed.reduce((sum, times) => sum + Math.max(0, times - 1), 0),
    most_times_billed: billed.reduce((most, times) => Math.max(most, times), 0),
  };
}

/** A 53-bit hash of a content: a double is a small key of a map. */
function keyOf(endpoint: string, content: string): number {
  const [high, low] = hashText(`${endpoint} ${content}`);
  return (high >>> 11) * 2 ** 32 + low;
}

function emptyTotals() {
  return {
    requests: 0,
    records: 0,
    matched: 0,
    billed: 0,
    statuses: {} as Record<string, number>,
    faults: {} as Record<string, number>,
  };
}

export type Ledger = ReturnType<typeof createLedger>;

/** Makes an empty ledger of requests and charges; without `countsContents` it keeps sums only. */
export function createLedger({ countsContents }: { readonly countsContents: boolean }) {
  let requests = 0;
  const endpoints: Record<string, ReturnType<typeof emptyTotals>> = {};
  let recent: Attempt[] = [];
  const contents = new Map<number, number>();
  return {
    nextNumber: () => (requests += 1),
    record(entry: Attempt): void {
      const totals = (endpoints[entry.endpoint] ??= emptyTotals());
      totals.requests += 1;
      totals.records += entry.records;
      totals.matched += entry.matched;
      totals.billed += entry.billed;
      totals.statuses[entry.status] = (totals.statuses[entry.status] ?? 0) + 1;
      for (const fault of entry.faults) totals.faults[fault] = (totals.faults[fault] ?? 0) + 1;
      if (recent.length >= RECENT * 2) recent = recent.slice(-RECENT);
      recent.push(entry);
    },
    countContent(endpoint: string, content: string, isBilled: boolean): void {
      if (!countsContents) return;
      const key = keyOf(endpoint, content);
      contents.set(key, (contents.get(key) ?? 0) + 1 + (isBilled ? BILLED : 0));
    },
    snapshot: () => ({
      requests,
      endpoints,
      contents: countsContents ? sumContents([...contents.values()]) : null,
      recent: recent.slice(-RECENT),
    }),
  };
}
