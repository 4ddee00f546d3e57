import { randomUUID } from "node:crypto";
import type { Clock } from "../clock.ts";
import { crashPoint } from "../crash-point.ts";
import { decompress, type PlainBody } from "./answer-body.ts";
import { type Batch, createBatch, type Entry, splitBatch, toEntries } from "./batch.ts";
import type { BatchSource } from "./batch-source.ts";
import { createBell } from "./bell.ts";
import type { ExhaustedBatch, FinishedCall } from "./finished-call.ts";
import { createFinishedCalls, MAX_WAITING_BYTES } from "./finished-calls.ts";
import type { HttpReply } from "./http-client.ts";
import { MAX_ISOLATION_CALLS } from "./isolate.ts";
import { isAnswer, type Keeper, type KeptAnswer } from "./keeper.ts";

export type { ExhaustedBatch, FinishedCall } from "./finished-call.ts";

/** A call whose turn has come, before it is sent. */
export interface PlannedCall<T> {
  readonly callId: string;
  /** How many times its records will have been asked for, this call included. */
  readonly attempt: number;
  readonly plannedAtMs: number;
  /** No other call is under way or about to be settled, so that nothing can be given back. */
  readonly isAlone: boolean;
  readonly entries: readonly Entry<T>[];
}

/** What calls are made of. */
export interface DispatchOptions<T> {
  readonly source: BatchSource<T>;
  readonly clock: Clock;
  readonly maxCalls: number;
  /** Keeps answers; null where they cost nothing. */
  readonly keeper: Keeper<T> | null;
  /** Most records for the next call. */
  limit(): number;
  isTight(): boolean;
  /**
   * How many records of a call may be sent, from the first on. 0 for none: then the call is asked for again when all others
   * have been settled.
   */
  reserve(call: PlannedCall<T>): Promise<number>;
  /**
   * Waits for a turn, then asks what to send, and sends it; null when there is nothing to send. Rejects when `waiting` is
   * aborted before its turn.
   */
  send(begin: () => Promise<Batch<T> | null>, waiting: AbortSignal): Promise<HttpReply | null>;
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

/** Starts nothing before the first `next`. */
export function createDispatch<T>(options: DispatchOptions<T>): Dispatch<T> {
  const { source, clock, keeper } = options;
  const bell = createBell(clock);
  const running = new Set<Promise<void>>();
  const finished = createFinishedCalls<T>();
  const exhausted: Batch<T>[] = [];
  const bodies = new WeakMap<FinishedCall<T>, Promise<PlainBody>>();
  let waiting: Batch<T>[] = [];
  let leftOut: Entry<T>[] = [];
  let reading: Promise<void> | null = null;
  let failure: { readonly error: unknown } | null = null;
  let hasBegun = false;
  /** A call was granted nothing: nothing is started before all that is under way has been settled, and then one call alone. */
  let isHeld = false;
  let isStopped = false;
  let turns = new AbortController();
  let nextNumber = 0;

  /** Puts an answer where it survives a crash, before anything else is done with it. */
  async function keep(call: FinishedCall<T>): Promise<KeptAnswer<T> | null> {
    const { reply } = call;
    if (!keeper || !isAnswer(reply)) return null;
    try {
      return await keeper.keep({ ...call, reply });
    } catch (error) {
      // It can still be loaded from memory, but nothing more may be sent.
      failure ??= { error };
      return null;
    }
  }

  /** Keeps only the first records of a batch; the others go back to those that wait. */
  function keepFirst(batch: Batch<T>, count: number): Batch<T> {
    if (count >= batch.entries.length) return batch;
    const [head, tail] = splitBatch(batch, [batch.entries.slice(0, count), batch.entries.slice(count)]);
    if (tail && !isStopped) waiting.unshift(tail);
    return head ?? batch;
  }

  async function call(planned: Batch<T>, turn: AbortSignal): Promise<void> {
    const callId = randomUUID();
    const wasTight = options.isTight();
    // Now, since calls that were started before may still wait for their turn.
    const isAlone = isHeld;
    let batch = planned;
    let startedAtMs: number | null = null;
    let attempt = 0;
    const begin = async () => {
      const { entries } = planned;
      attempt = 1 + Math.max(...entries.map((entry) => entry.calls));
      const granted = await options.reserve({ callId, attempt, plannedAtMs: clock.now(), isAlone, entries });
      isHeld = granted === 0;
      if (isHeld) return null;
      batch = keepFirst(planned, granted);
      startedAtMs = clock.now();
      attempt = 0;
      for (const entry of batch.entries) attempt = Math.max(attempt, ++entry.calls);
      if (batch.origin.isolationCalls !== null) batch.origin.isolationCalls += 1;
      return batch;
    };
    try {
      const reply = await options.send(begin, turn);
      if (reply === null) {
        if (!isStopped) waiting.unshift(planned);
        return;
      }
      crashPoint("after_receive");
      const start = startedAtMs ?? clock.now();
      const milliseconds = Math.max(0, clock.now() - start);
      const call: FinishedCall<T> = {
        kind: "finished",
        batch,
        callId,
        attempt,
        startedAtMs: start,
        milliseconds,
        reply,
        wasTight,
      };
      finished.push(call, await keep(call));
    } catch (error) {
      if (!turn.aborted) failure ??= { error };
      else if (!isStopped) waiting.unshift(planned);
    }
  }

  function start(batch: Batch<T>): void {
    const task = call(batch, turns.signal).finally(() => {
      running.delete(task);
      wake();
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
        wake();
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
    const isAllElseDone = source.isDone && waiting.length === 0 && running.size === 0 && finished.size === 0;
    if (leftOut.length < (isAllElseDone ? 1 : limit)) return null;
    const entries = leftOut.slice(0, limit);
    leftOut = leftOut.slice(limit);
    return createBatch(nextNumber++, entries);
  }

  function takeNext(limit: number): Batch<T> | null {
    const batch = takeWaiting(limit) ?? takeLeftOut(limit);
    if (batch) return batch;
    // While the service turns calls away no further records are read: what waits is bounded too.
    if (waiting.length + underWay() >= options.maxCalls) return null;
    if (source.has(limit)) return createBatch(nextNumber++, toEntries(source.take(limit)));
    if (!source.isDone) readPage();
    return null;
  }

  function mayGoOn(): boolean {
    return !isStopped && failure === null;
  }

  /** Answers that wait on disk hold up nothing, as long as nothing else waits for its consequences. */
  function isAhead(): boolean {
    return keeper?.mayRunAhead() === true && finished.areAllKept && !options.isTight();
  }

  /** Calls that count against the most there may be. */
  function underWay(): number {
    return running.size + (isAhead() ? 0 : finished.size);
  }

  function hasRoom(): boolean {
    if (isHeld) return running.size + finished.size === 0;
    if (keeper?.hasRoom(running.size) === false) return false;
    if (finished.bytes > MAX_WAITING_BYTES && !isAhead()) return false;
    return underWay() < (options.isTight() ? 1 : options.maxCalls);
  }

  function startCalls(): void {
    while (mayGoOn() && hasRoom()) {
      const batch = takeNext(options.limit());
      if (!batch) return;
      if ((batch.origin.isolationCalls ?? 0) >= MAX_ISOLATION_CALLS) {
        exhausted.push(batch);
        return;
      }
      start(batch);
    }
  }

  /** Goes on, also while nobody asks for the next call. */
  function wake(): void {
    if (hasBegun && isAhead() && !isHeld) startCalls();
    bell.ring();
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
    hasBegun = true;
    for (;;) {
      startCalls();
      const batch = exhausted.shift();
      if (batch) return { kind: "exhausted", batch };
      const call = await finished.shift();
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

  keeper?.onChange(wake);

  return {
    next,
    async plainBody(call) {
      const body = plainBody(call);
      finished.prepareNext((following) => void plainBody(following));
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
