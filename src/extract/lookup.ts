import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { LookupEndpoint } from "../schemas/endpoint.ts";
import { openBatchSource } from "./batch-source.ts";
import { createBatchSize } from "./batch-size.ts";
import { createCapacity } from "./capacity.ts";
import { createDispatch } from "./dispatch.ts";
import type { HttpClient } from "./http-client.ts";
import type { Keeper } from "./keeper.ts";
import type { Limiter } from "./limits.ts";
import type { Attempt, LookupItem, LookupOutcome } from "./lookup-outcome.ts";
import type { ReadResult } from "./read-answer.ts";
import { buildRequestBody } from "./request-body.ts";
import { createSettlement } from "./settle.ts";
import { createStop } from "./stop.ts";

export type { ReadContext, ReadResult } from "./read-answer.ts";
export type { Answered, Attempt, LookupItem, LookupOutcome, Rejected, SetAside } from "./lookup-outcome.ts";

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
  /** Awaited for every attempt that yields no rows. */
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
  const dispatch = createDispatch<T>({
    source: openBatchSource(options.items),
    clock: options.clock,
    maxCalls: limiter.concurrency,
    keeper,
    limit: () => capacity.limit(batchSize.limit),
    isTight: () => capacity.isTight,
    send: async ({ entries }, onStart, waiting) =>
      await limiter.run(
        endpoint.name,
        async () => {
          onStart();
          const items = entries.map((entry) => entry.item);
          const body = buildRequestBody(endpoint, options.parameters, items);
          return await http.request({
            method: endpoint.method,
            path: endpoint.path,
            body,
            signal: abandon.signal,
          });
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
