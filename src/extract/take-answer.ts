import type { LookupEndpoint } from "../schemas/endpoint.ts";
import type { Entry } from "./batch.ts";
import type { Answered, Attempt, LookupItem } from "./lookup-outcome.ts";
import { pairByAddress, pairByRecordId, type Pairing } from "./pair-results.ts";
import type { Answer, ReadResult } from "./read-answer.ts";
import { attemptOf, type ResultReading, type UnderstoodCall } from "./understand-call.ts";

/** What an answer means for the records that were asked about. */
export interface TakenAnswer<T, R> {
  readonly attempt: Attempt;
  /** Null when the answer has a result for none of them. */
  readonly outcome: Answered<T, R> | null;
  /** Records that it leaves out. */
  readonly missing: readonly Entry<T>[];
}

/** How results of an endpoint are read. */
export function readingOf<R>(endpoint: LookupEndpoint, read: ReadResult<R>): ResultReading<R> {
  const keyField = endpoint.pairing === "record_id" ? "record_id" : "email_address";
  return { endpoint: endpoint.name, keyField, read };
}

function pairResults(
  endpoint: LookupEndpoint,
  entries: readonly Entry<LookupItem>[],
  { results }: Answer<unknown>,
): Pairing {
  return endpoint.pairing === "record_id"
    ? pairByRecordId(
        entries.map(({ item }) => item.recordId),
        results,
      )
    : pairByAddress(
        entries.map(({ item }) => item.address ?? ""),
        results,
      );
}

/** Gives each record its result. */
export function takeAnswer<T extends LookupItem, R>(
  endpoint: LookupEndpoint,
  understood: UnderstoodCall<T, R>,
  answer: Answer<R>,
): TakenAnswer<T, R> {
  const { entries } = understood.call.batch;
  const pairing = pairResults(endpoint, entries, answer);
  const recordsMatched = pairing.filter((index) => answer.results[index ?? -1]?.isMatch).length;
  const items: T[] = [];
  const results: R[] = [];
  const missing: Entry<T>[] = [];
  for (const [index, entry] of entries.entries()) {
    const result = answer.results[pairing[index] ?? -1];
    if (result === undefined) missing.push(entry);
    else {
      items.push(entry.item);
      results.push(result.value);
    }
  }
  const leavesOut = missing.length > 0;
  const attempt = {
    ...attemptOf(endpoint.name, understood, recordsMatched),
    ...(leavesOut ? { leavesOut } : {}),
  };
  if (items.length === 0) return { attempt, outcome: null, missing };
  const { apiRequestId, answeredAt, drift } = answer;
  const outcome = {
    kind: "answered",
    attempt,
    items,
    results,
    apiRequestId,
    answeredAt,
    drift,
  } as const;
  return { attempt, outcome, missing };
}
