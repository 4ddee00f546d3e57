/** A record on its way, with what happened to it in this run. */
export interface Entry<T> {
  readonly item: T;
  /** Calls that carried it. */
  calls: number;
  /** Calls of which we don't know whether they were charged. */
  ambiguousCalls: number;
  /** It was left out of an answer once. */
  wasLeftOut: boolean;
  /** It was reported as sent. */
  isReported: boolean;
}

/** Earlier calls of this run that may have been charged for a record without its answer being in our hands. */
export function callsInDoubt({ ambiguousCalls, wasLeftOut }: Omit<Entry<unknown>, "item">): number {
  return ambiguousCalls + (wasLeftOut ? 1 : 0);
}

/** What the pieces of one batch have in common. */
interface Origin {
  /** Its place in the order of the source. */
  readonly number: number;
  readonly size: number;
  /** Pieces whose records have no outcome yet. */
  openPieces: number;
  /** Rejected, or given up on. */
  failedRecords: number;
  /** Why records were refused, the last time; null as long as none was. */
  signature: string | null;
  /** Calls since the service first refused records of it; null as long as it didn't. */
  isolationCalls: number | null;
}

/** Records for one call. */
export interface Batch<T> {
  readonly entries: readonly Entry<T>[];
  readonly origin: Origin;
  /** Tries that were turned away without being charged. */
  readonly refusals: number;
  /** Not to be sent before. */
  readonly dueAtMs: number;
}

/** Records from the source, never sent yet. */
export function toEntries<T>(items: readonly T[]): Entry<T>[] {
  return items.map((item) => ({
    item,
    calls: 0,
    ambiguousCalls: 0,
    wasLeftOut: false,
    isReported: false,
  }));
}

/** Makes a batch of its own. */
export function createBatch<T>(number: number, entries: readonly Entry<T>[]): Batch<T> {
  const origin = {
    number,
    size: entries.length,
    openPieces: 1,
    failedRecords: 0,
    signature: null,
    isolationCalls: null,
  };
  return { entries, origin, refusals: 0, dueAtMs: 0 };
}

/** Replaces a batch by pieces; empty ones are left out. */
export function splitBatch<T>(batch: Batch<T>, groups: readonly (readonly Entry<T>[])[]): Batch<T>[] {
  const pieces = groups.filter((entries) => entries.length > 0).map((entries) => ({ ...batch, entries }));
  batch.origin.openPieces += pieces.length - 1;
  return pieces;
}

/** The same records again, not before `dueAtMs`. */
export function delayBatch<T>(batch: Batch<T>, dueAtMs: number, refusals: number): Batch<T> {
  return { ...batch, dueAtMs, refusals };
}

/** Both halves of a batch's records, the first not smaller. */
export function halves<T>(batch: Batch<T>): [readonly Entry<T>[], readonly Entry<T>[]] {
  const middle = Math.ceil(batch.entries.length / 2);
  return [batch.entries.slice(0, middle), batch.entries.slice(middle)];
}

/** The items of entries. */
export function itemsOf<T>(entries: readonly Entry<T>[]): T[] {
  return entries.map((entry) => entry.item);
}
