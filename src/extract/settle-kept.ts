import type { Clock } from "../clock.ts";
import type { LookupEndpoint } from "../schemas/endpoint.ts";
import { decompress } from "./answer-body.ts";
import { createBatch, toEntries } from "./batch.ts";
import type { FinishedCall } from "./finished-call.ts";
import type { LookupItem } from "./lookup-outcome.ts";
import type { ReadResult } from "./read-answer.ts";
import { readingOf, takeAnswer, type TakenAnswer } from "./take-answer.ts";
import { attemptOf, understandCall } from "./understand-call.ts";

/** A call of an earlier run whose answer was kept. */
export interface KeptCall<T>
  extends Pick<FinishedCall<T>, "callId" | "attempt" | "startedAtMs" | "milliseconds"> {
  readonly contentEncoding: string | null;
  /** As received. */
  readonly body: Buffer;
  /** In the order in which they were sent. */
  readonly items: readonly T[];
  /** Of each item: earlier calls of which it isn't known whether they were charged; null where there was none. */
  readonly ambiguousCalls: readonly number[] | null;
}

/** How kept answers are read. */
export interface KeptReading<R> {
  readonly endpoint: LookupEndpoint;
  readonly read: ReadResult<R>;
  readonly clock: Clock;
}

/**
 * Makes of a kept answer what was to be made of it when it came in. Records that it leaves out are simply not among the
 * outcome's: they are due still. So are all of them when it can't be read, which may have been charged all the same.
 */
export async function settleKept<T extends LookupItem, R>(
  kept: KeptCall<T>,
  { endpoint, read, clock }: KeptReading<R>,
): Promise<Omit<TakenAnswer<T, R>, "missing">> {
  const { callId, attempt, startedAtMs, milliseconds, contentEncoding, body } = kept;
  const entries = toEntries(kept.items).map((entry, i) => ({
    ...entry,
    ambiguousCalls: kept.ambiguousCalls?.[i] ?? 0,
  }));
  const call: FinishedCall<T> = {
    kind: "finished",
    batch: createBatch(0, entries),
    callId,
    attempt,
    startedAtMs,
    milliseconds,
    reply: {
      kind: "response",
      status: 200,
      retryAfter: null,
      date: null,
      location: null,
      contentEncoding,
      body,
      keyVersion: 0,
    },
    wasTight: false,
  };
  const plain = await decompress(body, contentEncoding);
  const understood = await understandCall(call, plain, readingOf(endpoint, read), clock);
  if (understood.answer) return takeAnswer(endpoint, understood, understood.answer);
  for (const entry of entries) entry.ambiguousCalls += 1;
  return { attempt: attemptOf(endpoint.name, understood, null), outcome: null };
}
