import { randomUUID } from "node:crypto";
import type { Clock } from "../clock.ts";
import { crashPoint } from "../crash-point.ts";
import { codeOf, LimitReachedError, StopJobError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { LookupEndpoint } from "../schemas/endpoint.ts";
import { type Batch, callsInDoubt, cutBatch, itemsOf } from "./batch.ts";
import { openBatchQueue } from "./batch-queue.ts";
import { createBatchSize } from "./batch-size.ts";
import { createCapacity } from "./capacity.ts";
import type { EndedCall, PlannedCall } from "./call.ts";
import type { HttpClient, HttpReply } from "./http-client.ts";
import { MAX_ISOLATION_CALLS } from "./isolate.ts";
import type { Limiter } from "./limits.ts";
import type { LookupItem, SetAside } from "./lookup-item.ts";
import { buildRequest } from "./request-body.ts";
import { createSettlement, type ReadSummary, type Settled } from "./settle.ts";

/** Options of a lookup. */
export interface LookupOptions<T extends LookupItem> {
  readonly endpoint: LookupEndpoint;
  /** Additional parameters of the request (`return_fields`). */
  readonly parameters: object;
  /** Pages of any size, in order; read only when a call could start. */
  readonly items: AsyncIterable<readonly T[]>;
  readonly http: HttpClient;
  /** Shared by all lookups of a run. */
  readonly limiter: Limiter;
  readonly clock: Clock;
  readonly log: Log;
  /** From 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
}

/** Batch taken from the queue. */
export type TakenBatch<T> =
  | { readonly kind: "to_send"; readonly batch: Batch<T> }
  /** It used up the maximum number of calls for a batch. */
  | { readonly kind: "given_up"; readonly setAside: SetAside<T> };

/**
 * Decides what to send next and how to handle each reply. The caller runs the calls: `take`, then, when the limiter allows
 * it, `plan`, `send`, `settle` and, after recording the outcome, `finish`.
 */
export interface Lookup<T> {
  /** Waits for the next batch; null if nothing is left to send, or after `stop`. */
  take(): Promise<TakenBatch<T> | null>;
  /** Plans the call of a batch. Null if it may not be sent now; then the batch is requeued. */
  plan(batch: Batch<T>): PlannedCall<T> | null;
  /** Requeues a planned call that can't be reserved. A limit stops the lookup if no call in flight can release a reservation. */
  refuse(call: PlannedCall<T>, reason: unknown): void;
  /** Removes records permanently from a planned call; null if none are left. */
  leaveOut(call: PlannedCall<T>, isOut: (item: T) => boolean): PlannedCall<T> | null;
  /** Sends the first records of a planned call. Never rejects: without a key, the call ends as not sent. */
  send(call: PlannedCall<T>, granted: number): Promise<EndedCall<T>>;
  /** Decides how to handle the records of a call. @param read summary of the answer of a 200 */
  settle(call: EndedCall<T>, read: ReadSummary | null): Promise<Settled<T>>;
  /** Finishes a call and queues everything that must be sent again because of it. */
  finish(settled: Settled<T>): void;
  /** Aborted after `stop`. */
  readonly signal: AbortSignal;
  /** Stops sending. Of several reasons, `throwIfStopped` throws the most severe one. */
  stop(reason?: unknown): void;
  throwIfStopped(): void;
  /** Stops reading records. */
  close(): Promise<void>;
}

/** Ranks reasons: a failure above a limit, the end of the run above the end of the job. */
function weightOf(reason: unknown): number {
  if (reason instanceof LimitReachedError) return 1;
  return reason instanceof StopJobError ? 2 : 3;
}

/** Opens a lookup; does not read or send anything yet. */
export function openLookup<T extends LookupItem>(options: LookupOptions<T>): Lookup<T> {
  const { endpoint, http, clock, limiter } = options;
  const batchSize = createBatchSize(endpoint.maxRecords);
  const capacity = createCapacity();
  /** True if a budget granted nothing. Then only one call is made at a time, because calls in flight may release records. */
  let isBudgetTight = false;
  let stopped: { readonly reason: unknown } | null = null;
  const stopping = new AbortController();
  const queue = openBatchQueue<T>({
    pages: options.items,
    clock,
    most: () => (isTight() ? 1 : limiter.concurrency),
    batchSize: () => capacity.limit(batchSize.limit),
  });
  const settle = createSettlement<T>({ ...options, batchSize, capacity, stop });

  function isTight(): boolean {
    return isBudgetTight || capacity.isTight;
  }

  function stop(reason?: unknown): void {
    if (reason !== undefined && (stopped === null || weightOf(reason) > weightOf(stopped.reason))) {
      stopped = { reason };
    }
    queue.stop();
    stopping.abort();
  }

  async function request(items: readonly T[]): Promise<HttpReply> {
    try {
      crashPoint("before_send");
      return await http.request(buildRequest(endpoint, options.parameters, items));
    } catch (reason) {
      stop(reason);
      const code = codeOf(reason) ?? "NOT_SENT";
      return { kind: "failure", sent: false, status: null, code, message: "Not sent." };
    }
  }

  return {
    async take() {
      const batch = await queue.take();
      if (batch === null) return null;
      if ((batch.origin.isolationCalls ?? 0) < MAX_ISOLATION_CALLS) return { kind: "to_send", batch };
      const setAside = settle.giveUp(batch);
      queue.giveBack([]);
      return { kind: "given_up", setAside };
    },
    plan(taken) {
      // A rejection or a signal may have arrived while the batch waited.
      if (stopping.signal.aborted || (isTight() && queue.out > 1)) {
        queue.giveBack([taken]);
        return null;
      }
      // Giving it back would waste its turn, too.
      const [batch, rest] = cutBatch(taken, capacity.limit(batchSize.limit));
      if (rest) queue.add(rest);
      const attempt = 1 + Math.max(...batch.entries.map((entry) => entry.calls));
      const isAlone = isBudgetTight;
      const items = itemsOf(batch.entries);
      return { callId: randomUUID(), batch, items, attempt, plannedAtMs: clock.now(), isAlone };
    },
    refuse({ batch, isAlone }, reason) {
      isBudgetTight = true;
      if (isAlone || !(reason instanceof LimitReachedError)) stop(reason);
      queue.giveBack([batch]);
    },
    leaveOut(call, isOut) {
      const entries = call.batch.entries.filter(({ item }) => !isOut(item));
      if (entries.length > 0) return { ...call, batch: { ...call.batch, entries }, items: itemsOf(entries) };
      queue.giveBack([]);
      return null;
    },
    async send({ callId, batch: planned }, granted) {
      const [batch, rest] = cutBatch(planned, granted);
      if (rest) queue.add(rest);
      const wasTight = capacity.isTight;
      const doubts = batch.entries.map((entry) => callsInDoubt(entry) + (entry.item.mayBeBilled ? 1 : 0));
      let attempt = 0;
      for (const entry of batch.entries) attempt = Math.max(attempt, ++entry.calls);
      if (batch.origin.isolationCalls !== null) batch.origin.isolationCalls += 1;
      const items = itemsOf(batch.entries);
      let startedAtMs = clock.now();
      const reply = await limiter.send(endpoint.name, () => {
        startedAtMs = clock.now();
        return request(items);
      });
      crashPoint("after_receive");
      const milliseconds = Math.max(0, clock.now() - startedAtMs);
      const call = { endpoint: endpoint.name, callId, attempt, startedAtMs, milliseconds };
      return { ...call, batch, items, doubts, reply, wasTight };
    },
    settle,
    signal: stopping.signal,
    finish({ again, leftOut }) {
      queue.giveBack(again, leftOut);
    },
    stop,
    throwIfStopped() {
      if (stopped) throw stopped.reason;
    },
    close: () => queue.close(),
  };
}
