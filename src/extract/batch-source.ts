/** Takes records out of pages of any size, as many at a time as fit into a call. */
export interface BatchSource<T> {
  /** Nothing is left, neither here nor in the pages. */
  readonly isDone: boolean;
  /** Whether so many records, or all that is left, are at hand without another page. */
  has(count: number): boolean;
  /** Reads one more page; call it only when what is at hand doesn't fill a call. */
  readPage(): Promise<void>;
  /** Takes at most so many of the records at hand. */
  take(count: number): readonly T[];
  /** Gives up the pages that were not read. */
  close(): Promise<void>;
}

/** Begins to read when the first page is asked for. */
export function openBatchSource<T>(pages: AsyncIterable<readonly T[]>): BatchSource<T> {
  const iterator = pages[Symbol.asyncIterator]();
  let records: readonly T[] = [];
  /** Position in `records` of the first that wasn't taken. */
  let taken = 0;
  let hasEnded = false;

  return {
    get isDone() {
      return hasEnded && taken === records.length;
    },
    has: (count) => records.length - taken >= (hasEnded ? 1 : count),
    async readPage() {
      const page = await iterator.next();
      if (page.done) hasEnded = true;
      else {
        records = taken === records.length ? page.value : [...records.slice(taken), ...page.value];
        taken = 0;
      }
    },
    take(count) {
      const batch = records.slice(taken, taken + count);
      taken += batch.length;
      return batch;
    },
    async close() {
      if (!hasEnded) await iterator.return?.();
      hasEnded = true;
      records = [];
      taken = 0;
    },
  };
}
