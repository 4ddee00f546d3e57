import { randomUUID } from "node:crypto";
import type { Clock } from "../clock.ts";
import { decompress, type PlainBody } from "./answer-body.ts";
import { type Batch, createBatch, type Entry, splitBatch, toEntries } from "./batch.ts";
import type { BatchSource } from "./batch-source.ts";
import type { HttpReply } from "./http-client.ts";
import { MAX_ISOLATION_CALLS } from "./isolate.ts";

/** A call that came to an end, its body not parsed yet. */
export interface FinishedCall<T> {
  readonly kind: "finished";
  readonly batch: Batch<T>;
  readonly callId: string;
  /** How many times its records have been asked for, this call included. */
  readonly attempt: number;
  readonly startedAtMs: number;
  readonly milliseconds: number;
  readonly reply: HttpReply;
  /** It was made alone, see capacity.ts. */
  readonly wasTight: boolean;
}

/** Records that took all the calls that one batch may cost. */
export interface ExhaustedBatch<T> {
  readonly kind: "exhausted";
  readonly batch: Batch<T>;
}

/** What calls are made of. */
export interface DispatchOptions<T> {
  readonly source: BatchSource<T>;
  readonly clock: Clock;
  readonly maxCalls: number;
  /** Most records for the next call. */
  limit(): number;
  isTight(): boolean;
  /** Waits for a turn, notes the start and sends; rejects when `waiting` is aborted before its turn. */
  send(batch: Batch<T>, onStart: () => void, waiting: AbortSignal): Promise<HttpReply>;
}

/** Keeps as many calls in flight as may be, and hands them out one by one as they end. */
export interface Dispatch<T> {
  /** The next call that ended; null when there is nothing left to do. Throws what the source or a call threw. */
  next(): Promise<FinishedCall<T> | ExhaustedBatch<T> | null>;
  /** The body of the call that `next` returned last, decompressed; that of the one after it is begun as well. */
  plainBody(call: FinishedCall<T>): Promise<PlainBody>;
  /** Puts batches before all others. */
  requeue(batches: readonly Batch<T>[]): void;
  /** Keeps records that an answer left out for a call of their own. */
  askAgain(entries: readonly Entry<T>[]): void;
  /** Takes back the calls that wait for their turn. */
  recall(): void;
  /** Makes no further calls; those in flight are still handed out. */
  stop(): void;
  /** Waits for all that is under way. */
  close(): Promise<void>;
}

/**
 * Bodies that may wait to be parsed before no further call is started: when loading is the slower side, more of them
 * would only take memory.
 */
const MAX_WAITING_BYTES = 4 * 1024 * 1024;

function bytesOf(calls: readonly FinishedCall<unknown>[]): number {
  return calls.reduce((sum, { reply }) => sum + (reply.kind === "response" ? reply.body.length : 0), 0);
}

/** Wakes one waiter; a ring that nobody waits for is kept. */
function createBell(clock: Clock) {
  let ringing = Promise.withResolvers<void>();
  return {
    ring: () => {
      ringing.resolve();
    },
    /** Waits for the bell, at most so long; null for as long as it takes. */
    async wait(ms: number | null): Promise<void> {
      const timer = new AbortController();
      const late = ms === null ? [] : [clock.sleep(ms, timer.signal).catch(() => undefined)];
      await Promise.race([ringing.promise, ...late]);
      timer.abort();
      ringing = Promise.withResolvers<void>();
    },
  };
}

/** Starts nothing before the first `next`. */
export function createDispatch<T>(options: DispatchOptions<T>): Dispatch<T> {
  const { source, clock } = options;
  const bell = createBell(clock);
  const running = new Set<Promise<void>>();
  const finished: FinishedCall<T>[] = [];
  const bodies = new WeakMap<FinishedCall<T>, Promise<PlainBody>>();
  let waiting: Batch<T>[] = [];
  let leftOut: Entry<T>[] = [];
  let reading: Promise<void> | null = null;
  let failure: { readonly error: unknown } | null = null;
  let isStopped = false;
  let turns = new AbortController();
  let nextNumber = 0;

  async function call(batch: Batch<T>, turn: AbortSignal): Promise<void> {
    const callId = randomUUID();
    const wasTight = options.isTight();
    let startedAtMs: number | null = null;
    let attempt = 0;
    const onStart = () => {
      startedAtMs = clock.now();
      for (const entry of batch.entries) attempt = Math.max(attempt, ++entry.calls);
      if (batch.origin.isolationCalls !== null) batch.origin.isolationCalls += 1;
    };
    try {
      const reply = await options.send(batch, onStart, turn);
      const start = startedAtMs ?? clock.now();
      const milliseconds = Math.max(0, clock.now() - start);
      finished.push({
        kind: "finished",
        batch,
        callId,
        attempt,
        startedAtMs: start,
        milliseconds,
        reply,
        wasTight,
      });
    } catch (error) {
      if (!turn.aborted) failure ??= { error };
      else if (!isStopped) waiting.unshift(batch);
    }
  }

  function start(batch: Batch<T>): void {
    const task = call(batch, turns.signal).finally(() => {
      running.delete(task);
      bell.ring();
    });
    running.add(task);
  }

  function readPage(): void {
    reading ??= source
      .readPage()
      .catch((error: unknown) => {
        failure ??= { error };
      })
      .finally(() => {
        reading = null;
        bell.ring();
      });
  }

  /** Position of the batch that is due and came first from the source; -1 for none. */
  function firstDue(): number {
    let first = -1;
    let firstNumber = Number.POSITIVE_INFINITY;
    for (const [index, { dueAtMs, origin }] of waiting.entries()) {
      if (dueAtMs > clock.now() || origin.number >= firstNumber) continue;
      first = index;
      firstNumber = origin.number;
    }
    return first;
  }

  function takeWaiting(limit: number): Batch<T> | null {
    const index = firstDue();
    const [batch] = index < 0 ? [] : waiting.splice(index, 1);
    if (!batch || batch.entries.length <= limit) return batch ?? null;
    const [head, tail] = splitBatch(batch, [batch.entries.slice(0, limit), batch.entries.slice(limit)]);
    if (tail) waiting.unshift(tail);
    return head ?? null;
  }

  function takeLeftOut(limit: number): Batch<T> | null {
    const isAllElseDone =
      source.isDone && waiting.length === 0 && running.size === 0 && finished.length === 0;
    if (leftOut.length < (isAllElseDone ? 1 : limit)) return null;
    const entries = leftOut.slice(0, limit);
    leftOut = leftOut.slice(limit);
    return createBatch(nextNumber++, entries);
  }

  function takeNext(limit: number): Batch<T> | null {
    const batch = takeWaiting(limit) ?? takeLeftOut(limit);
    if (batch) return batch;
    // While the service turns calls away no further records are read: what waits is bounded too.
    if (waiting.length + running.size + finished.length >= options.maxCalls) return null;
    if (source.has(limit)) return createBatch(nextNumber++, toEntries(source.take(limit)));
    if (!source.isDone) readPage();
    return null;
  }

  function mayGoOn(): boolean {
    return !isStopped && failure === null;
  }

  /** Starts what may start; returns a batch that may not be sent again. */
  function startCalls(): Batch<T> | null {
    while (mayGoOn()) {
      const underWay = running.size + finished.length;
      if (underWay >= (options.isTight() ? 1 : options.maxCalls)) return null;
      if (bytesOf(finished) > MAX_WAITING_BYTES) return null;
      const batch = takeNext(options.limit());
      if (!batch) return null;
      if ((batch.origin.isolationCalls ?? 0) >= MAX_ISOLATION_CALLS) return batch;
      start(batch);
    }
    return null;
  }

  function msUntilDue(): number | null {
    if (isStopped || waiting.length === 0) return null;
    return Math.max(0, Math.min(...waiting.map((batch) => batch.dueAtMs)) - clock.now());
  }

  async function plainBody(call: FinishedCall<T>): Promise<PlainBody> {
    const known = bodies.get(call);
    if (known) return await known;
    const { reply } = call;
    const body: Promise<PlainBody> =
      reply.kind === "response"
        ? decompress(reply.body, reply.contentEncoding)
        : Promise.resolve({ kind: "unreadable", reason: reply.code });
    bodies.set(call, body);
    return await body;
  }

  async function next(): Promise<FinishedCall<T> | ExhaustedBatch<T> | null> {
    for (;;) {
      const exhausted = startCalls();
      if (exhausted) return { kind: "exhausted", batch: exhausted };
      const call = finished.shift();
      if (call) return call;
      if (running.size === 0 && reading === null) {
        if (failure) throw failure.error;
        if (isStopped || (source.isDone && waiting.length === 0 && leftOut.length === 0)) return null;
      }
      // A call in flight frees a place when it ends; until then nothing that waits could start.
      const mayStart = running.size < (options.isTight() ? 1 : options.maxCalls);
      await bell.wait(mayStart ? msUntilDue() : null);
    }
  }

  return {
    next,
    async plainBody(call) {
      const body = plainBody(call);
      const [following] = finished;
      if (following) void plainBody(following);
      return await body;
    },
    requeue(batches) {
      waiting.unshift(...batches);
    },
    askAgain(entries) {
      leftOut.push(...entries);
    },
    recall() {
      turns.abort();
      turns = new AbortController();
    },
    stop() {
      isStopped = true;
      waiting = [];
      leftOut = [];
      turns.abort();
      bell.ring();
    },
    async close() {
      isStopped = true;
      turns.abort();
      await Promise.all(running);
      await reading;
      await source.close();
    },
  };
}
