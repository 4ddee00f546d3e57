import type { Attempt } from "../schemas/attempt.ts";

/** Identity and timing of one call. */
export interface CallFacts {
  /** Method and path. */
  readonly endpoint: string;
  readonly callId: string;
  /** Number of calls that contained these records, including this one. */
  readonly attempt: number;
  readonly startedAtMs: number;
  readonly milliseconds: number;
}

/** Outcome of a call as stored in the ledger. */
type AttemptEnd = Omit<
  Attempt,
  "callId" | "endpoint" | "attempt" | "startedAt" | "milliseconds" | "possiblyBilledTwice"
>;

/**
 * Creates the ledger entry of a call.
 * @param doubts per record: number of earlier calls that may have billed it without returning its result
 */
export function attemptOf(call: CallFacts, end: AttemptEnd, doubts: readonly number[]): Attempt {
  const { endpoint, callId, attempt, startedAtMs, milliseconds } = call;
  const isCharged = end.possiblyBilled || end.recordsMatched !== null;
  return {
    ...end,
    endpoint,
    callId,
    attempt,
    milliseconds,
    startedAt: new Date(startedAtMs).toISOString(),
    possiblyBilledTwice: isCharged ? doubts.filter((calls) => calls > 0).length : 0,
  };
}
