import { setImmediate as letOthersRun } from "node:timers/promises";
import type { LookupEndpoint } from "../schemas/endpoint.ts";
import { plainChunks, UnreadableBodyError } from "./answer-body.ts";
import { TooLargeError } from "./bounded-json.ts";
import { envelopeOf, headOf, parseResult, type ResultHead, skimResult } from "./read-answer.ts";
import type { LookupItem } from "./requests.ts";
import { createScanner, endScan, scan, type ScannedResult, type Scanner } from "./scan-answer.ts";
import { type AnsweredCall, pairAnswer, type PairedAnswer, readingOf, unreadable } from "./take-answer.ts";

/** Answer of which the results have been seen, but not kept. */
export interface SurveyedAnswer extends PairedAnswer {
  /** Position of the item of each paired result, by the result's index in the body. */
  readonly positions: ReadonlyMap<number, number>;
}

/** Finds the results in a body of any size, one at a time. */
async function* scanBody(
  { body, contentEncoding }: AnsweredCall<LookupItem>,
  scanner: Scanner,
): AsyncGenerator<ScannedResult> {
  for await (const chunk of plainChunks(body, contentEncoding)) {
    yield* scan(scanner, chunk);
    // Lets heartbeats and commits run.
    await letOthersRun();
  }
}

/** Reason why a body is no answer; null for other errors. */
function reasonOf(error: unknown): string | null {
  if (error instanceof UnreadableBodyError) return error.reason;
  if (error instanceof TooLargeError) return "body_too_large";
  return error instanceof SyntaxError ? "no_json" : null;
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
    const envelope = endScan(scanner);
    if (typeof envelope === "string") return none(envelope);
    const { keys, first } = envelope;
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
    const reason = reasonOf(error);
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
