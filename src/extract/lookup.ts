import { crashPoint } from "../crash-point.ts";
import type { Clock } from "../clock.ts";
import { codeOf, LimitReachedError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { LookupEndpoint } from "../schemas/endpoint.ts";
import { openBatchSource } from "./batch-source.ts";
import { createBatchSize } from "./batch-size.ts";
import { createCapacity } from "./capacity.ts";
import { type Batch, itemsOf } from "./batch.ts";
import { createDispatch, type PlannedCall } from "./dispatch.ts";
import type { HttpClient, HttpReply } from "./http-client.ts";
import type { Keeper } from "./keeper.ts";
import type { Limiter } from "./limits.ts";
import type { Attempt, LookupItem, LookupOutcome } from "./lookup-outcome.ts";
import type { ReadResult } from "./read-answer.ts";
import { buildRequestBody } from "./request-body.ts";
import { createSettlement } from "./settle.ts";
import { createStop } from "./stop.ts";

export type { ReadContext, ReadResult } from "./read-answer.ts";
export type { Answered, Attempt, LookupItem, LookupOutcome, Rejected, SetAside } from "./lookup-outcome.ts";

/** A call that is about to be sent. */
export interface CallToReserve<T> {
  readonly callId: string;
  /** How many times its records will have been asked for, this call included. */
  readonly attempt: number;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  readonly items: readonly T[];
}

/** What to ask, of whom, and how. */
export interface LookupOptions<T extends LookupItem, R> {
  readonly endpoint: LookupEndpoint;
  /** Further keys of the request's body (`return_fields`). */
  readonly parameters: object;
  /** Pages of any size, in order; read only when a call could start. Closed when the lookup ends. */
  readonly items: AsyncIterable<readonly T[]>;
  readonly http: HttpClient;
  /** Shared by all lookups of a run. */
  readonly limiter: Limiter;
  readonly clock: Clock;
  readonly log: Log;
  /** Ends the lookup early: no new call is made, what is in flight is finished and yielded. */
  readonly signal: AbortSignal;
  /**
   * Awaited before every request: how many of its items may be sent (at least one), from the first on; the others are
   * asked about in a later call. Rejects when none may: with a LimitReachedError the lookup ends for that reason if it is so
   * still when all that is in flight has been settled, with anything else once that has ended.
   */
  readonly reserve: (call: CallToReserve<T>) => Promise<number>;
  /** Awaited for every attempt that yields no rows, before its items are sent again. */
  readonly onAttempt: (attempt: Attempt) => Promise<void>;
  /** Told of each item once, when the service has or may have processed it. */
  readonly onSent: (items: readonly T[]) => void;
  /** Keeps what is wanted of a result; called for every result that is an object, also those that nothing asked for. */
  readonly read: ReadResult<R>;
  /** From 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  /** Keeps every answer of a billed endpoint before anything else is done with it; null where they may be lost. */
  readonly keeper: Keeper<T> | null;
}

/**
 * Asks for all items in batches and yields what became of them; every item comes out once, unless the lookup ends
 * early. Holds one piece of a parsed answer at a time. Throws LimitReachedError, StopJobError or StopRunError, but only after
 * every call in flight has ended and its answer was yielded: what is paid for is never thrown away.
 */
export async function* lookup<T extends LookupItem, R>(
  options: LookupOptions<T, R>,
): AsyncGenerator<LookupOutcome<T, R>, void, undefined> {
  const { endpoint, http, limiter } = options;
  const keeper = endpoint.billed ? options.keeper : null;
  const abandon = new AbortController();
  const batchSize = createBatchSize(endpoint.maxRecords);
  const capacity = createCapacity();
  async function reserve({ plannedAtMs, isAlone, entries, ...call }: PlannedCall<T>): Promise<number> {
    const startedAt = new Date(plannedAtMs).toISOString();
    try {
      return await options.reserve({ ...call, startedAt, items: itemsOf(entries) });
    } catch (reason) {
      // What other calls have reserved may be given back.
      if (isAlone || !(reason instanceof LimitReachedError)) stop.because(reason);
      return 0;
    }
  }

  /** Sends a call; what hinders it before anything was sent ends the lookup, and the call as one that wasn't sent. */
  async function request({ entries }: Batch<T>): Promise<HttpReply> {
    const body = buildRequestBody(endpoint, options.parameters, itemsOf(entries));
    crashPoint("before_send");
    try {
      const { method, path } = endpoint;
      return await http.request({ method, path, body, signal: abandon.signal });
    } catch (reason) {
      stop.because(reason);
      return {
        kind: "failure",
        sent: false,
        status: null,
        code: codeOf(reason) ?? "NOT_SENT",
        message: "Not sent.",
      };
    }
  }

  const dispatch = createDispatch<T>({
    source: openBatchSource(options.items),
    clock: options.clock,
    maxCalls: limiter.concurrency,
    keeper,
    limit: () => capacity.limit(batchSize.limit),
    isTight: () => capacity.isTight,
    reserve,
    send: async (begin, waiting) =>
      await limiter.run(
        endpoint.name,
        async () => {
          const batch = await begin();
          return batch && (await request(batch));
        },
        waiting,
      ),
  });
  const stop = createStop(dispatch);
  const settle = createSettlement({ ...options, dispatch, batchSize, capacity, stop });
  const onAbort = () => {
    dispatch.stop();
  };
  if (options.signal.aborted) onAbort();
  options.signal.addEventListener("abort", onAbort, { once: true });
  try {
    for (let ended = await stop.next(); ended !== null; ended = await stop.next()) {
      yield* await settle(ended);
    }
    stop.throwIfStopped();
  } finally {
    options.signal.removeEventListener("abort", onAbort);
    // Only a consumer that gave up leaves calls in flight; they are paid for, so they end where they can be kept.
    if (!keeper) abandon.abort();
    await dispatch.close();
  }
}
