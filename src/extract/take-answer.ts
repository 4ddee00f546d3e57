import { freeBytes } from "../free-bytes.ts";
import { instantAt } from "../schemas/convert.ts";
import type { Drift } from "../schemas/drift.ts";
import type { LookupEndpoint } from "../schemas/endpoint.ts";
import { decompress, MAX_ANSWER_BYTES } from "./answer-body.ts";
import { attemptOf, type CallFacts } from "./attempt.ts";
import type { LookupItem } from "./lookup-item.ts";
import { type KeyedResult, pairByAddress, pairByRecordId, type Pairing } from "./pair-results.ts";
import {
  type Answer,
  readAnswer,
  type ReadOptions,
  type ReadResult,
  TooLargeError,
  type Unreadable,
} from "./read-answer.ts";
import type { ReadSummary } from "./settle.ts";
import type { Attempt } from "../schemas/attempt.ts";

/** A call that was answered with 200. */
export interface AnsweredCall<T> extends CallFacts {
  readonly contentEncoding: string | null;
  /** As received. */
  readonly body: Buffer;
  /** In request order. */
  readonly items: readonly T[];
  /** Per item: number of earlier calls that may have billed it without returning its result. */
  readonly doubts: readonly number[];
}

/** Parsed answer with the result of each item. */
export interface TakenAnswer<R> {
  readonly summary: ReadSummary;
  readonly attempt: Attempt;
  /** By item; undefined if the answer has none. */
  readonly results: readonly (R | undefined)[];
  readonly apiRequestId: string | null;
  /** Completion time reported by the service if plausible, otherwise the time of receipt: UTC, microseconds kept. */
  readonly answeredAt: string;
  readonly drift: readonly Drift[];
}

function pair(
  { pairing }: LookupEndpoint,
  items: readonly LookupItem[],
  results: readonly KeyedResult[],
): Pairing {
  if (pairing === "record_id") {
    return pairByRecordId(
      items.map(({ recordId }) => recordId),
      results,
    );
  }
  return pairByAddress(
    items.map(({ address = "" }) => address),
    results,
  );
}

/** Creates the ledger entry of an answer without results, which may have been billed. */
export function unreadAttempt({ items, doubts, body, ...call }: AnsweredCall<unknown>): Attempt {
  const end = {
    apiRequestId: null,
    requestCompletedAt: null,
    httpStatus: 200,
    isSent: true,
    recordsSent: items.length,
    recordsMatched: null,
    responseBytes: body.length,
    possiblyBilled: true,
  };
  return attemptOf(call, end, doubts);
}

/** The answer or its rows take more memory than was set aside for the size that its last bytes state. */
export class UnderstatedSizeError extends Error {
  override readonly name = "UnderstatedSizeError";
  readonly code = "SIZE_UNDERSTATED";
}

async function readBounded<R>(bytes: Buffer, options: ReadOptions<R>): Promise<Answer<R> | Unreadable> {
  try {
    return await readAnswer(bytes, options);
  } catch (error) {
    if (error instanceof TooLargeError) return { kind: "unreadable", reason: "body_too_large" };
    throw error;
  }
}

/** Reads a 200: decompresses and parses it, maps each result by `read`, and finds the result of each item. */
export async function takeAnswer<R>(
  endpoint: LookupEndpoint,
  call: AnsweredCall<LookupItem>,
  read: ReadResult<R>,
  maxBytes: number = MAX_ANSWER_BYTES,
): Promise<TakenAnswer<R>> {
  const { items, doubts, body } = call;
  const receivedAt = instantAt(call.startedAtMs + call.milliseconds);
  const plain = await decompress(body, call.contentEncoding, maxBytes);
  if (plain.kind === "unreadable" && plain.reason === "body_too_large" && maxBytes < MAX_ANSWER_BYTES) {
    throw new UnderstatedSizeError("The answer is larger than its last bytes state.");
  }
  const keyField = endpoint.pairing === "record_id" ? "record_id" : "email_address";
  const maxResults = 10 * items.length + 100;
  const options = { endpoint: endpoint.name, keyField, read, receivedAt, maxResults };
  const answer = plain.kind === "plain" ? await readBounded(plain.bytes, options) : plain;
  if (plain.kind === "plain" && plain.bytes !== body) freeBytes(plain.bytes);
  if (answer.kind === "unreadable") {
    const { reason } = answer;
    return {
      summary: { kind: "unreadable", reason, isTooLarge: reason === "body_too_large" },
      attempt: unreadAttempt(call),
      results: [],
      apiRequestId: null,
      answeredAt: receivedAt,
      drift: [],
    };
  }
  const { apiRequestId, answeredAt, drift, plainBytes } = answer;
  const found = pair(endpoint, items, answer.results).map((index) => answer.results[index ?? -1]);
  const missing = found.flatMap((result, position) => (result === undefined ? [position] : []));
  const isEmpty = missing.length === items.length;
  const end = {
    apiRequestId,
    requestCompletedAt: answer.requestCompletedAt,
    httpStatus: 200,
    isSent: true,
    recordsSent: items.length,
    recordsMatched: isEmpty ? null : found.filter((result) => result?.isMatch).length,
    responseBytes: body.length,
    // An empty list counts as no answer, but may have been billed.
    possiblyBilled: isEmpty,
    ...(missing.length > 0 && !isEmpty ? { recordsLeftOut: missing.length } : {}),
  };
  return {
    summary: { kind: "answer", missing, plainBytes, apiRequestId },
    attempt: attemptOf(call, end, doubts),
    results: found.map((result) => result?.value),
    apiRequestId,
    answeredAt,
    drift,
  };
}
