import type { Clock } from "../clock.ts";
import { type Batch, createBatch, cutBatch, type Entry, toEntries } from "./batch.ts";

/** Options of a queue. Limits are read before each batch. */
export interface QueueOptions<T> {
  /** Pages of any size, in order; read only when a call could start. */
  readonly pages: AsyncIterable<readonly T[]>;
  readonly clock: Clock;
  /** Maximum batches taken at the same time. */
  most(): number;
  /** Maximum records for the next call. */
  batchSize(): number;
}

/** Queue of batches to send: first those to retry, then new ones from the pages. */
export interface BatchQueue<T> {
  /**
   * Takes the next batch, waiting until one is due and allowed. Null if nothing is left in the queue or taken, or after
   * `stop`. Rejects with the error of a page.
   */
  take(): Promise<Batch<T> | null>;
  /** Number of batches taken and not returned. */
  readonly out: number;
  /** Adds a batch before those that follow it in source order. */
  add(batch: Batch<T>): void;
  /** Returns a taken batch, with everything that must be sent again because of it. */
  giveBack(again: readonly Batch<T>[], leftOut?: readonly Entry<T>[]): void;
  /** Stops handing out batches. */
  stop(): void;
  /** Stops reading pages. */
  close(): Promise<void>;
}

/** Opens a queue; reads no page before the first `take`. */
export function openBatchQueue<T>(options: QueueOptions<T>): BatchQueue<T> {
  const { clock } = options;
  const pages = options.pages[Symbol.asyncIterator]();
  let items: readonly T[] = [];
  let waiting: Batch<T>[] = [];
  let leftOut: Entry<T>[] = [];
  let reading: Promise<void> | null = null;
  let failure: { readonly error: unknown } | null = null;
  let hasEnded = false;
  let isStopped = false;
  let out = 0;
  let nextNumber = 0;
  let change = Promise.withResolvers<void>();

  function wake(): void {
    change.resolve();
    change = Promise.withResolvers();
  }

  async function readPage(): Promise<void> {
    try {
      const page = await pages.next();
      if (page.done) hasEnded = true;
      else items = [...items, ...page.value];
    } catch (error) {
      hasEnded = true;
      failure = { error };
    } finally {
      reading = null;
      wake();
    }
  }

  /** Takes the first due batch in source order from the waiting ones. */
  function takeWaiting(size: number): Batch<T> | null {
    let first: Batch<T> | null = null;
    for (const batch of waiting) {
      if (batch.dueAtMs > clock.now()) continue;
      if (first === null || batch.origin.number < first.origin.number) first = batch;
    }
    if (first === null) return null;
    const [head, tail] = cutBatch(first, size);
    waiting = waiting.flatMap((batch) => (batch !== first ? [batch] : tail ? [tail] : []));
    return head;
  }

  function takeLeftOut(size: number): Batch<T> | null {
    const isAllElseDone = hasEnded && items.length === 0 && waiting.length === 0 && out === 0;
    if (leftOut.length < (isAllElseDone ? 1 : size)) return null;
    const entries = leftOut.slice(0, size);
    leftOut = leftOut.slice(size);
    return createBatch(nextNumber++, entries);
  }

  function takeNew(size: number): Batch<T> | null {
    // Reads no more records while the service rejects calls, so that the number of waiting batches is limited.
    if (waiting.length + out >= options.most()) return null;
    if (items.length >= size || (hasEnded && items.length > 0)) {
      const batch = createBatch(nextNumber++, toEntries(items.slice(0, size)));
      items = items.slice(size);
      return batch;
    }
    if (!hasEnded) reading ??= readPage();
    return null;
  }

  function isDone(): boolean {
    return hasEnded && out + items.length + waiting.length + leftOut.length === 0;
  }

  /** Waits for a change, or until the next waiting batch is due. */
  async function waitForChange(): Promise<void> {
    const { promise } = change;
    if (out >= options.most() || waiting.length === 0) return await promise;
    const dueInMs = Math.min(...waiting.map(({ dueAtMs }) => dueAtMs)) - clock.now();
    const timer = new AbortController();
    await Promise.race([promise, clock.sleep(Math.max(0, dueInMs), timer.signal).catch(() => undefined)]);
    timer.abort();
  }

  return {
    get out() {
      return out;
    },
    add(batch) {
      if (!isStopped) waiting.unshift(batch);
      wake();
    },
    async take() {
      for (;;) {
        if (isStopped || isDone()) return null;
        if (failure) throw failure.error;
        const size = options.batchSize();
        const batch = out < options.most() ? (takeWaiting(size) ?? takeLeftOut(size) ?? takeNew(size)) : null;
        if (batch) {
          out += 1;
          return batch;
        }
        await waitForChange();
      }
    },
    giveBack(again, left = []) {
      out -= 1;
      if (!isStopped) {
        waiting.unshift(...again);
        leftOut.push(...left);
      }
      wake();
    },
    stop() {
      isStopped = true;
      waiting = [];
      leftOut = [];
      wake();
    },
    async close() {
      isStopped = true;
      await reading;
      if (!hasEnded) await pages.return?.();
      hasEnded = true;
    },
  };
}
