import { setImmediate as letOthersRun } from "node:timers/promises";
import { type Body, freeBytes, isFilePart } from "../body.ts";
import type { LookupEndpoint } from "../schemas/answer.ts";
import { type Drift, instantAt } from "../schemas/convert.ts";
import type { Attempt } from "../schemas/ledger.ts";
import {
  createScanner,
  decompress,
  endScan,
  MAX_ANSWER_BYTES,
  plainChunks,
  type ScannedResult,
  type Scanner,
  UnreadableBodyError,
} from "./answer-body.ts";
import type { LookupItem } from "./batches.ts";
import { TooLargeError } from "./json.ts";
import {
  type Answer,
  envelopeOf,
  headOf,
  parseResult,
  readAnswer,
  type ResultReader,
  reasonOf,
  type ResultHead,
  resultsIn,
  skimResult,
} from "./read-answer.ts";
import { attemptOf, type CallFacts } from "./send-call.ts";

/** Summary of a 200 response, as needed to decide what to send next. */
export type ReadSummary =
  | {
      readonly kind: "answer";
      /** Positions of records in the call without a result. */
      readonly missing: readonly number[];
      /** After decompression. */
      readonly plainBytes: number;
      readonly apiRequestId: string | null;
    }
  /** Not JSON, without a list of results, or too large. */
  | { readonly kind: "unreadable"; readonly reason: string; readonly isTooLarge: boolean };

/** A call that was answered with 200. */
export interface AnsweredCall<T> extends CallFacts {
  readonly contentEncoding: string | null;
  /** As received. */
  readonly body: Body;
  /** In request order. */
  readonly items: readonly T[];
}

/** Content of an answer, without its results. */
export interface PairedAnswer {
  readonly summary: ReadSummary;
  readonly attempt: Attempt;
  readonly pairing: Pairing;
  readonly apiRequestId: string | null;
  /** Completion time reported by the service if plausible, otherwise the time of receipt: UTC, microseconds kept. */
  readonly completedAt: string;
}

interface TakenAnswer<R> extends PairedAnswer {
  /** By item; undefined if the answer has none, null if it is too large to load. */
  readonly results: readonly (R | null | undefined)[];
  readonly drift: readonly Drift[];
}

/**
 * Reads a 200: decompresses and parses it, maps each result by `read`, and finds the result of each item.
 * Throws a LargeAnswerError for an answer that isn't to be in memory as a whole.
 */
export async function takeAnswer<R>(
  endpoint: LookupEndpoint,
  call: AnsweredCall<LookupItem>,
  reader: ResultReader<R>,
  maxBytes: number = MAX_ANSWER_BYTES,
): Promise<TakenAnswer<R>> {
  const { body } = call;
  if (isFilePart(body)) throw new LargeAnswerError();
  const plain = await decompress(body, call.contentEncoding, maxBytes);
  if (plain.kind === "unreadable" && plain.reason === "body_too_large") {
    if (maxBytes >= MAX_ANSWER_BYTES) throw new LargeAnswerError();
    throw new UnderstatedSizeError("The response is larger than its last bytes say.");
  }
  const answer =
    plain.kind === "plain"
      ? await readAnswer(plain.bytes, { ...readingOf(endpoint, call), ...reader })
      : plain;
  if (plain.kind === "plain" && plain.bytes !== body) freeBytes(plain.bytes);
  if (answer.kind === "unreadable") return { ...unreadable(call, answer.reason), results: [], drift: [] };
  const paired = pairAnswer(endpoint, call, answer);
  const results = paired.pairing.map((index) => answer.results[index ?? -1]?.value);
  return { ...paired, results, drift: answer.drift };
}

export function readingOf({ name, pairing, isMatch }: LookupEndpoint, call: AnsweredCall<LookupItem>) {
  const keyField = pairing === "record_id" ? "record_id" : "email_address";
  const receivedAt = instantAt(call.startedAtMs + call.milliseconds);
  return { endpoint: name, keyField, isMatch, receivedAt, maxResults: 10 * call.items.length + 100 };
}

function unreadable(call: AnsweredCall<LookupItem>, reason: string): PairedAnswer {
  return {
    summary: { kind: "unreadable", reason, isTooLarge: reason === "body_too_large" },
    attempt: unreadAttempt(call),
    pairing: [],
    apiRequestId: null,
    completedAt: instantAt(call.startedAtMs + call.milliseconds),
  };
}

/** Finds the result of each item by the beginnings of all results. */
function pairAnswer(
  endpoint: LookupEndpoint,
  call: AnsweredCall<LookupItem>,
  answer: Omit<Answer<never>, "kind" | "results" | "drift"> & {
    readonly results: readonly (ResultHead | undefined)[];
  },
): PairedAnswer {
  const { items, body } = call;
  const { apiRequestId, completedAt, plainBytes } = answer;
  const keyOf = ({ recordId, address = "" }: LookupItem) =>
    endpoint.pairing === "record_id" ? recordId : address;
  const pairing = pairResults(endpoint.pairing, items.map(keyOf), answer.results);
  const missing = pairing.flatMap((index, position) => (index === undefined ? [position] : []));
  const isEmpty = missing.length === items.length;
  const end = {
    apiRequestId,
    requestCompletedAt: answer.requestCompletedAt,
    recordsSent: items.length,
    recordsMatched: isEmpty ? null : pairing.filter((index) => answer.results[index ?? -1]?.isMatch).length,
    responseBytes: body.length,
    // An empty list counts as no answer, but may have been billed.
    possiblyBilled: isEmpty,
    ...(missing.length > 0 && !isEmpty ? { recordsLeftOut: missing.length } : {}),
  };
  return {
    summary: { kind: "answer", missing, plainBytes, apiRequestId },
    attempt: attemptOf(call, end),
    pairing,
    apiRequestId,
    completedAt,
  };
}

/** Creates the ledger entry of an answer without results, which may have been billed. */
export function unreadAttempt(call: AnsweredCall<unknown>): Attempt {
  return attemptOf(call, { recordsSent: call.items.length, responseBytes: call.body.length });
}

/** The answer or its rows take more memory than was set aside for the size that its last bytes state. */
export class UnderstatedSizeError extends Error {
  override readonly name = "UnderstatedSizeError";
  readonly code = "SIZE_UNDERSTATED";
}

/** The answer, or its rows, are too large to be in memory as a whole. */
export class LargeAnswerError extends Error {
  override readonly name = "LargeAnswerError";
}

/** Answer of which the results have been seen, but not kept. */
export interface SurveyedAnswer extends PairedAnswer {
  /** Position of the item of each paired result, by the result's index in the body. */
  readonly positions: ReadonlyMap<number, number>;
}

/**
 * Reads a large answer once, to check it and to pair its results. Yields the index of each result before parsing it.
 * @param unread index of a result of which no more than the beginning is read; null for none
 */
export async function* surveyAnswer(
  endpoint: LookupEndpoint,
  call: AnsweredCall<LookupItem>,
  unread: number | null,
): AsyncGenerator<number, SurveyedAnswer> {
  const options = readingOf(endpoint, call);
  const scanner = createScanner();
  const heads: (ResultHead | undefined)[] = [];
  const none = (reason: string) => ({ ...unreadable(call, reason), positions: new Map<number, number>() });
  try {
    for await (const found of scanBody(call, scanner)) {
      if (heads.length === options.maxResults) throw new TooLargeError();
      yield found.index;
      const { value } = found.index === unread ? skimResult(found) : parseResult(found);
      heads.push(headOf(value, options));
    }
    const { keys, first = null } = endScan(scanner) ?? {};
    if (keys === undefined) return none("no_json");
    if (first === null) return none("no_results");
    const answer = {
      ...envelopeOf(keys, options.receivedAt),
      results: heads.slice(first),
      plainBytes: scanner.bytes,
    };
    const paired = pairAnswer(endpoint, call, answer);
    const positions = paired.pairing.flatMap((index, position) =>
      index === undefined ? [] : [[first + index, position] as const],
    );
    return { ...paired, positions: new Map(positions) };
  } catch (error) {
    const reason = error instanceof UnreadableBodyError ? error.reason : reasonOf(error);
    if (reason === null) throw error;
    return none(reason);
  }
}

/** Reads a surveyed answer again: its paired results with the position of their item, not parsed yet. */
export async function* pairedResults(
  call: AnsweredCall<LookupItem>,
  { positions }: SurveyedAnswer,
): AsyncGenerator<{ readonly position: number; readonly found: ScannedResult }> {
  if (positions.size === 0) return;
  for await (const found of scanBody(call, createScanner())) {
    const position = positions.get(found.index);
    if (position !== undefined) yield { position, found };
  }
}

async function* scanBody(
  { body, contentEncoding }: AnsweredCall<LookupItem>,
  scanner: Scanner,
): AsyncGenerator<ScannedResult> {
  for await (const chunk of plainChunks(body, contentEncoding)) {
    yield* resultsIn(scanner, chunk);
    // Lets heartbeats and commits run.
    await letOthersRun();
  }
}

/** Key of a result; null if it has none, undefined if the result is not an object. */
type KeyedResult = { readonly key: string | null } | undefined;

/** Index of the result of each record, in request order; undefined if the answer omits it. */
type Pairing = readonly (number | undefined)[];

const exactly = (key: string): string => key;

/** The service may normalize addresses; used only for results without an exact match. */
const caselessly = (key: string): string => key.trim().toLowerCase();

/**
 * Finds the result of each record: by position if results without a key, or addresses in the order of the request, allow it;
 * otherwise the first one with its key. Ignores unknown keys and repeated ones: a response to another request answers nothing.
 */
export function pairResults(
  pairing: LookupEndpoint["pairing"],
  sent: readonly string[],
  results: readonly KeyedResult[],
): Pairing {
  const isAddress = pairing !== "record_id";
  const isAtItsPlace = (key: string | null, i: number) =>
    key === null || (isAddress && caselessly(key) === caselessly(sent[i] ?? ""));
  const isInOrder = results.every((result, i) => isAtItsPlace(result?.key ?? null, i));
  if (isInOrder && results.length === sent.length) return results.map((result, i) => result && i);
  const paired: (number | undefined)[] = sent.map(() => undefined);
  const unused = new Map(results.flatMap((result, i) => (result?.key ? [[i, result.key] as const] : [])));
  for (const normalize of isAddress ? [exactly, caselessly] : [exactly]) {
    const open = sent.flatMap((key, position) =>
      paired[position] === undefined ? [{ key: normalize(key), position }] : [],
    );
    const positions = Map.groupBy(open, ({ key }) => key);
    for (const [index, key] of unused) {
      const next = positions.get(normalize(key))?.shift();
      if (next === undefined) continue;
      paired[next.position] = index;
      unused.delete(index);
    }
  }
  return paired;
}
