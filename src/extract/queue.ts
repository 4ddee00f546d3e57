import type { Clock } from "../clock.ts";
import { type LimitReachedError, StopJobError, type StopRunError } from "../errors.ts";
import type { LookupEndpoint } from "../schemas/answer.ts";
import {
  type Batch,
  type BatchSize,
  type Capacity,
  createBatch,
  cutBatch,
  firstSize,
  LEAST_AFTER_CUT,
  type Origin,
  type Passed,
  sizeAfterAnswer,
  sizeAfterTooLarge,
} from "./batches.ts";
import type { Outcome } from "./decide.ts";

/** Batches to send and everything that decides on the next one. Functions below change it. */
export interface Queue<T> {
  readonly endpoint: LookupEndpoint;
  readonly clock: Clock;
  readonly concurrency: number;
  readonly pages: AsyncIterator<readonly T[]>;
  /** Records read and not yet in a batch. */
  items: readonly T[];
  reading: Promise<void> | null;
  failure: { readonly error: unknown } | null;
  hasEnded: boolean;
  isStopped: boolean;
  /** Batches to send again. */
  waiting: readonly Batch<T>[];
  /** Batches taken and not returned. */
  out: number;
  nextNumber: number;
  size: BatchSize;
  capacity: Capacity;
  /** True if a budget granted nothing. Then only one call is made at a time, because calls in flight may release records. */
  isBudgetTight: boolean;
  /** True after an answer was cut, until one comes through. Then only one call is made at a time, to lose no more. */
  isCutting: boolean;
  passed: Passed;
  /** True if the last batch that ended was answered. */
  isAnswering: boolean;
  /** Consecutive batches mostly rejected for the same reason, with that reason. */
  rejectedBatches: number;
  lastSignature: string | null;
  /** Consecutive batches set aside without an answer. */
  unansweredBatches: number;
  change: PromiseWithResolvers<void>;
}

/** Consecutive batches mostly rejected for the same reason, which indicates a wrong mapping. */
const MAX_SIMILAR_REJECTIONS = 3;
/** Consecutive batches without an answer after two attempts each: the service is failing and may bill for it. */
const MAX_UNANSWERED = 5;

/** Opens a queue of pages of any size; reads none before the first batch is taken. */
export function openQueue<T>(options: {
  readonly endpoint: LookupEndpoint;
  readonly pages: AsyncIterable<readonly T[]>;
  readonly concurrency: number;
  readonly clock: Clock;
  /** Records of the smallest recent call whose answer was cut; null for none. */
  readonly cutAt?: number | null;
}): Queue<T> {
  const { endpoint, pages, concurrency, clock, cutAt } = options;
  return {
    endpoint,
    clock,
    concurrency,
    pages: pages[Symbol.asyncIterator](),
    items: [],
    reading: null,
    failure: null,
    hasEnded: false,
    isStopped: false,
    waiting: [],
    out: 0,
    nextNumber: 0,
    size: sizeAfterTooLarge(firstSize(endpoint.maxRecords), cutAt ?? 0, LEAST_AFTER_CUT),
    capacity: { isTight: false, refusals: 0, available: 0 },
    isBudgetTight: false,
    isCutting: false,
    passed: { records: 0, bytes: 0 },
    isAnswering: false,
    rejectedBatches: 0,
    lastSignature: null,
    unansweredBatches: 0,
    change: Promise.withResolvers(),
  };
}

/** Takes batches, waiting until one is due and allowed. Ends if nothing is left in the queue or taken, or once stopped. */
export async function* batchesOf<T>(queue: Queue<T>): AsyncGenerator<Batch<T>> {
  for (let batch = await takeBatch(queue); batch !== null; batch = await takeBatch(queue)) yield batch;
}

/** Takes the next batch; null at the end. Rejects with the error of a page. */
export async function takeBatch<T>(queue: Queue<T>): Promise<Batch<T> | null> {
  for (;;) {
    const left = queue.out + queue.items.length + queue.waiting.length;
    if (queue.isStopped || (queue.hasEnded && left === 0)) return null;
    if (queue.failure) throw queue.failure.error;
    const size = sizeLimit(queue);
    const isAllowed = queue.out < mostCalls(queue);
    const batch = isAllowed ? (takeWaiting(queue, size) ?? takeNew(queue, size)) : null;
    if (batch) {
      queue.out += 1;
      return batch;
    }
    await waitForChange(queue);
  }
}

function isTight({ isBudgetTight, capacity, isCutting }: Queue<unknown>): boolean {
  return isBudgetTight || capacity.isTight || isCutting;
}

function mostCalls(queue: Queue<unknown>): number {
  return isTight(queue) ? 1 : queue.concurrency;
}

function sizeLimit({ size, capacity: { isTight, available } }: Queue<unknown>): number {
  // If only matches are billed, more may be left than estimated, so at 0 a full batch is sent: a rejection is free.
  return isTight && available > 0 ? Math.min(available, size.limit) : size.limit;
}

/** Takes the first due batch in source order from the waiting ones. */
function takeWaiting<T>(queue: Queue<T>, size: number): Batch<T> | null {
  let first: Batch<T> | null = null;
  for (const batch of queue.waiting) {
    if (batch.dueAtMs > queue.clock.now()) continue;
    if (first === null || batch.origin.number < first.origin.number) first = batch;
  }
  if (first === null) return null;
  const [head, tail] = cutBatch(first, size);
  queue.waiting = queue.waiting.flatMap((batch) => (batch !== first ? [batch] : tail ? [tail] : []));
  return head;
}

function takeNew<T>(queue: Queue<T>, size: number): Batch<T> | null {
  // Reads no more records while the service rejects calls, so that the number of waiting batches is limited.
  if (queue.waiting.length + queue.out >= mostCalls(queue)) return null;
  if (queue.items.length >= size || (queue.hasEnded && queue.items.length > 0)) {
    const entries = queue.items
      .slice(0, size)
      .map((item) => ({ item, calls: 0, unansweredCalls: 0, wasLeftOut: false }));
    queue.items = queue.items.slice(size);
    return createBatch(queue.nextNumber++, entries);
  }
  if (!queue.hasEnded) queue.reading ??= readPage(queue);
  return null;
}

async function readPage<T>(queue: Queue<T>): Promise<void> {
  try {
    const page = await queue.pages.next();
    if (page.done) queue.hasEnded = true;
    else queue.items = [...queue.items, ...page.value];
  } catch (error) {
    queue.hasEnded = true;
    queue.failure = { error };
  } finally {
    queue.reading = null;
    wake(queue);
  }
}

function wake(queue: Queue<unknown>): void {
  queue.change.resolve();
  queue.change = Promise.withResolvers();
}

async function waitForChange(queue: Queue<unknown>): Promise<void> {
  const { change, clock, out, waiting } = queue;
  if (out >= mostCalls(queue) || waiting.length === 0) return await change.promise;
  const dueInMs = Math.min(...waiting.map(({ dueAtMs }) => dueAtMs)) - clock.now();
  const timer = new AbortController();
  await Promise.race([
    change.promise,
    clock.sleep(Math.max(0, dueInMs), timer.signal).catch(() => undefined),
  ]);
  timer.abort();
}

/** Cuts a taken batch for its call and requeues the rest. Null if it may not be sent now; then all of it is requeued. */
export function planBatch<T>(queue: Queue<T>, batch: Batch<T>): Batch<T> | null {
  // A rejection or a signal may have arrived while the batch waited.
  if (!queue.isStopped && (!isTight(queue) || queue.out === 1)) {
    // Requeuing all of it would waste its turn, too.
    return cutForCall(queue, batch, sizeLimit(queue));
  }
  returnBatch(queue, [batch]);
  return null;
}

/** Cuts a taken batch after `count` records and requeues the rest. */
export function cutForCall<T>(queue: Queue<T>, batch: Batch<T>, count: number): Batch<T> {
  const [head, tail] = cutBatch(batch, count);
  if (tail && !queue.isStopped) queue.waiting = [tail, ...queue.waiting];
  if (tail) wake(queue);
  return head;
}

export function countCall<T>({ capacity }: Queue<T>, batch: Batch<T>): Batch<T> {
  const origin: Origin = batch.origin;
  if (origin.isolationCalls !== null) origin.isolationCalls += 1;
  const entries = batch.entries.map((entry) => ({ ...entry, calls: entry.calls + 1 }));
  return { ...batch, entries, wasTight: capacity.isTight };
}

/** Returns a taken batch, with everything to send again because of it. */
export function returnBatch<T>(queue: Queue<T>, again: readonly Batch<T>[]): void {
  queue.out -= 1;
  if (!queue.isStopped) queue.waiting = [...again, ...queue.waiting];
  wake(queue);
}

/** Returns a batch of which a budget granted nothing. From then on, only one call is made at a time. */
export function refuseBatch<T>(queue: Queue<T>, batch: Batch<T>): void {
  queue.isBudgetTight = true;
  returnBatch(queue, [batch]);
}

/** Stops handing out batches. */
export function stopQueue(queue: Queue<unknown>): void {
  queue.isStopped = true;
  queue.waiting = [];
  wake(queue);
}

export async function closeQueue(queue: Queue<unknown>): Promise<void> {
  queue.isStopped = true;
  await queue.reading;
  if (!queue.hasEnded) await queue.pages.return?.();
  queue.hasEnded = true;
}

/** Applies an outcome to everything but the batches to send again. Returns an error if the job should stop. */
export function applyOutcome<T>(
  queue: Queue<T>,
  batch: Batch<T>,
  outcome: Outcome<T>,
): LimitReachedError | StopJobError | StopRunError | null {
  const { answer } = outcome;
  const origin: Origin = batch.origin;
  const { cap } = queue.size;
  if (answer) {
    queue.isCutting = false;
    const { records, bytes } = queue.passed;
    queue.passed = {
      records: Math.max(records, batch.entries.length),
      bytes: Math.max(bytes, answer.bodyBytes),
    };
    queue.size = sizeAfterAnswer(queue.size, answer, batch.entries.length - answer.missing);
    const { capacity } = queue;
    const available = Math.max(0, capacity.available - batch.entries.length);
    if (batch.wasTight) queue.capacity = { ...capacity, available };
    if (!answer.isMostMissing) {
      queue.isAnswering = true;
      queue.unansweredBatches = 0;
    }
  }
  if (outcome.isTooLarge) queue.size = sizeAfterTooLarge(queue.size, batch.entries.length);
  if (outcome.isCut) {
    queue.isCutting = true;
    queue.size = sizeAfterTooLarge(queue.size, batch.entries.length, LEAST_AFTER_CUT);
  }
  if (outcome.capacity) queue.capacity = outcome.capacity;
  if (outcome.kind === "isolate") origin.isolationCalls ??= 1;
  const failed = [...outcome.rejected, ...outcome.setAside];
  origin.failedRecords += failed.reduce((sum, { items }) => sum + items.length, 0);
  origin.signature = outcome.signature ?? origin.signature;
  if (outcome.kind === "set_aside") {
    // With smaller batches, the next one may be answered.
    return outcome.stop ?? (queue.size.cap < cap ? null : countUnanswered(queue, outcome.cause));
  }
  if (outcome.kind === "stop") return outcome.stop;
  return outcome.stop ?? closePieces(queue, origin, outcome.again.length);
}

function countUnanswered(queue: Queue<unknown>, cause: string): StopJobError | null {
  queue.isAnswering = false;
  queue.unansweredBatches += 1;
  if (queue.unansweredBatches < MAX_UNANSWERED) return null;
  return new StopJobError(
    "service_failing",
    `${queue.endpoint.name}: ${queue.unansweredBatches} consecutive batches got no response in two attempts each (last: ${cause}). ` +
      "Each attempt may have been billed, so the job stops; all responses are kept. Run again when the service has recovered.",
  );
}

/** Replaces a piece of a batch by others; with none left, counts consecutive batches that failed for the same reason. */
function closePieces(queue: Queue<unknown>, origin: Origin, pieces: number): StopJobError | null {
  origin.openPieces += pieces - 1;
  if (origin.openPieces > 0) return null;
  const { signature, failedRecords, size } = origin;
  if (signature === null || failedRecords * 2 <= size) {
    queue.lastSignature = null;
    queue.rejectedBatches = 0;
    return null;
  }
  queue.rejectedBatches = signature === queue.lastSignature ? queue.rejectedBatches + 1 : 1;
  queue.lastSignature = signature;
  if (queue.rejectedBatches < MAX_SIMILAR_REJECTIONS) return null;
  return new StopJobError(
    "similar_failures",
    `${queue.endpoint.name}: most records of ${queue.rejectedBatches} consecutive batches were rejected for the same reason ` +
      `(${signature}), so the mapping is probably wrong. Compare the input's \`fields\` with what the service expects.`,
  );
}
