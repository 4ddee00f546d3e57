import { hashText } from "./population/hash.ts";

/** One answered (or deliberately unanswered) request. */
export interface LedgerEntry {
  /** Counts requests from 1; calls of the sandbox's own `/_sandbox` paths are not counted. */
  readonly number: number;
  readonly endpoint: string;
  /** HTTP status; the intended one where a fault kept the reply from arriving. */
  readonly status: number;
  /** Records in the request, 0 where it was refused before they were read. */
  readonly records: number;
  readonly matched: number;
  readonly billed: number;
  /** Names of the faults that were applied. */
  readonly faults: readonly string[];
}

/** Sums of an endpoint's entries. */
export interface EndpointTotals {
  requests: number;
  records: number;
  matched: number;
  billed: number;
  statuses: Record<string, number>;
  faults: Record<string, number>;
}

/** How often equal record contents (the `record_id` apart) came in and were billed. */
export interface ContentTotals {
  readonly distinct_records: number;
  /** Distinct contents that came in more than once. */
  readonly received_more_than_once: number;
  readonly billed_once: number;
  readonly billed_more_than_once: number;
  /** Charges beyond the first of each content. */
  readonly billed_again: number;
  readonly most_times_billed: number;
}

/** What the sandbox was asked and what it charged for, bounded in memory. */
export interface Ledger {
  nextNumber(): number;
  record(entry: LedgerEntry): void;
  /** Counts one record's content, `billed` or not. */
  countContent(endpoint: string, content: string, billed: boolean): void;
  /** How often one content came in and was billed. */
  timesOf(endpoint: string, content: string): { readonly received: number; readonly billed: number };
  billedAt(endpoint: string): number;
  /** Plain data for the admin interface. */
  snapshot(): {
    readonly requests: number;
    readonly endpoints: Readonly<Record<string, EndpointTotals>>;
    readonly contents: ContentTotals | null;
    readonly recent: readonly LedgerEntry[];
  };
  reset(): void;
}

/** Entries kept in full; older ones live on in the sums. */
const RECENT = 1000;

/** An open-addressing map from 64-bit hashes to two counters: 12 bytes a slot, at most 70 % full. */
interface ContentCounts {
  add(high: number, low: number, billed: boolean): void;
  get(high: number, low: number): number;
  /** Each distinct content's counters: times received in the low 16 bits, times billed in the high ones. */
  counts(): Iterable<number>;
}

function createContentCounts(): ContentCounts {
  let capacity = 1 << 12;
  let used = 0;
  let keys = new Uint32Array(capacity * 2);
  let values = new Uint32Array(capacity);
  const slotOf = (high: number, low: number): number => {
    let slot = low & (capacity - 1);
    while (values[slot] !== 0 && (keys[slot * 2] !== high || keys[slot * 2 + 1] !== low)) {
      slot = (slot + 1) & (capacity - 1);
    }
    return slot;
  };
  const put = (high: number, low: number, value: number): void => {
    const slot = slotOf(high, low);
    if (values[slot] === 0) used += 1;
    keys[slot * 2] = high;
    keys[slot * 2 + 1] = low;
    values[slot] = value;
  };
  const grow = (): void => {
    const [oldKeys, oldValues] = [keys, values];
    capacity *= 2;
    used = 0;
    keys = new Uint32Array(capacity * 2);
    values = new Uint32Array(capacity);
    for (let i = 0; i < oldValues.length; i++) {
      const value = oldValues[i] ?? 0;
      if (value !== 0) put(oldKeys[i * 2] ?? 0, oldKeys[i * 2 + 1] ?? 0, value);
    }
  };
  return {
    add(high, low, billed) {
      if (used > capacity * 0.7) grow();
      put(high, low, (values[slotOf(high, low)] ?? 0) + (billed ? 0x10001 : 1));
    },
    get: (high, low) => values[slotOf(high, low)] ?? 0,
    *counts() {
      for (const value of values) if (value !== 0) yield value;
    },
  };
}

function sumContents(contents: ContentCounts): ContentTotals {
  const sums = { distinct: 0, received: 0, once: 0, more: 0, again: 0, most: 0 };
  for (const value of contents.counts()) {
    const billed = value >>> 16;
    sums.distinct += 1;
    if ((value & 0xffff) > 1) sums.received += 1;
    if (billed === 1) sums.once += 1;
    if (billed > 1) sums.more += 1;
    sums.again += Math.max(0, billed - 1);
    sums.most = Math.max(sums.most, billed);
  }
  return {
    distinct_records: sums.distinct,
    received_more_than_once: sums.received,
    billed_once: sums.once,
    billed_more_than_once: sums.more,
    billed_again: sums.again,
    most_times_billed: sums.most,
  };
}

/** Makes an empty ledger; without `countsContents` it keeps sums only (12 bytes less per distinct record). */
export function createLedger(options: { readonly countsContents: boolean }): Ledger {
  let requests = 0;
  let endpoints: Record<string, EndpointTotals> = {};
  let recent: LedgerEntry[] = [];
  let contents = createContentCounts();
  const totalsOf = (endpoint: string): EndpointTotals =>
    (endpoints[endpoint] ??= { requests: 0, records: 0, matched: 0, billed: 0, statuses: {}, faults: {} });
  return {
    nextNumber: () => (requests += 1),
    record(entry) {
      const totals = totalsOf(entry.endpoint);
      totals.requests += 1;
      totals.records += entry.records;
      totals.matched += entry.matched;
      totals.billed += entry.billed;
      totals.statuses[entry.status] = (totals.statuses[entry.status] ?? 0) + 1;
      for (const fault of entry.faults) totals.faults[fault] = (totals.faults[fault] ?? 0) + 1;
      if (recent.length >= RECENT * 2) recent = recent.slice(-RECENT);
      recent.push(entry);
    },
    countContent(endpoint, content, billed) {
      if (!options.countsContents) return;
      const [high, low] = hashText(`${endpoint} ${content}`);
      contents.add(high, low, billed);
    },
    timesOf(endpoint, content) {
      const [high, low] = hashText(`${endpoint} ${content}`);
      const value = contents.get(high, low);
      return { received: value & 0xffff, billed: value >>> 16 };
    },
    billedAt: (endpoint) => endpoints[endpoint]?.billed ?? 0,
    snapshot: () => ({
      requests,
      endpoints,
      contents: options.countsContents ? sumContents(contents) : null,
      recent: recent.slice(-RECENT),
    }),
    reset() {
      requests = 0;
      endpoints = {};
      recent = [];
      contents = createContentCounts();
    },
  };
}
