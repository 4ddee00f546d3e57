/** Record to send, with its history in this run. */
export interface Entry<T> {
  readonly item: T;
  /** Calls that contained it. */
  calls: number;
  /** Calls that may have billed it without returning its result. */
  ambiguousCalls: number;
  /** True if an answer had results for most records of its call, but not for this one. */
  wasLeftOut: boolean;
}

/** Number of earlier calls in this run that may have billed a record without returning its result. */
export function callsInDoubt({ ambiguousCalls, wasLeftOut }: Omit<Entry<unknown>, "item">): number {
  return ambiguousCalls + (wasLeftOut ? 1 : 0);
}

/** State shared by all pieces of a batch. */
interface Origin {
  /** Position in source order. */
  readonly number: number;
  readonly size: number;
  /** Pieces with records that have no outcome yet. */
  openPieces: number;
  /** Records that were rejected or given up. */
  failedRecords: number;
  /** Records to send again in another batch. */
  leftOutRecords: number;
  /** Reason of the last rejection; null for none. */
  signature: string | null;
  /** Calls since the service first rejected some of its records; null before that. */
  isolationCalls: number | null;
}

/** Records for one call. */
export interface Batch<T> {
  readonly entries: readonly Entry<T>[];
  readonly origin: Origin;
  /** Attempts rejected without being billed. */
  readonly refusals: number;
  /** Earliest time to send it. */
  readonly dueAtMs: number;
}

/** Creates a batch of records that were never sent. */
export function createBatch<T>(number: number, entries: readonly Entry<T>[]): Batch<T> {
  const origin = {
    number,
    size: entries.length,
    openPieces: 1,
    failedRecords: 0,
    leftOutRecords: 0,
    signature: null,
    isolationCalls: null,
  };
  return { entries, origin, refusals: 0, dueAtMs: 0 };
}

/** Wraps records that were never sent. */
export function toEntries<T>(items: readonly T[]): Entry<T>[] {
  return items.map((item) => ({ item, calls: 0, ambiguousCalls: 0, wasLeftOut: false }));
}

/** Replaces a batch by its non-empty pieces. */
export function splitBatch<T>(batch: Batch<T>, groups: readonly (readonly Entry<T>[])[]): Batch<T>[] {
  const pieces = groups.filter((entries) => entries.length > 0).map((entries) => ({ ...batch, entries }));
  batch.origin.openPieces += pieces.length - 1;
  return pieces;
}

/** Splits a batch after `count` records; the second part is null if empty. */
export function cutBatch<T>(batch: Batch<T>, count: number): readonly [Batch<T>, Batch<T> | null] {
  if (batch.entries.length <= count) return [batch, null];
  const [head, tail] = splitBatch(batch, [batch.entries.slice(0, count), batch.entries.slice(count)]);
  return [head ?? batch, tail ?? null];
}

/** Delays a batch until `dueAtMs`. */
export function delayBatch<T>(batch: Batch<T>, dueAtMs: number, refusals: number): Batch<T> {
  return { ...batch, dueAtMs, refusals };
}

/** Splits the records of a batch into halves; the first may be larger by one. */
export function halves<T>(batch: Batch<T>): [readonly Entry<T>[], readonly Entry<T>[]] {
  const middle = Math.ceil(batch.entries.length / 2);
  return [batch.entries.slice(0, middle), batch.entries.slice(middle)];
}

/** Returns the items of entries. */
export function itemsOf<T>(entries: readonly Entry<T>[]): T[] {
  return entries.map((entry) => entry.item);
}
