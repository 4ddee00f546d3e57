import type { LookupItem } from "../../src/extract/batches.ts";
import { parseResult, readOne, type ReadResult } from "../../src/extract/read-answer.ts";
import {
  type AnsweredCall,
  LargeAnswerError,
  pairedResults,
  readingOf,
  surveyAnswer,
  takeAnswer,
} from "../../src/extract/take-answer.ts";
import type { LookupEndpoint } from "../../src/schemas/answer.ts";
import { DriftLog } from "../../src/schemas/convert.ts";

/** Reads an answer of any size: in memory, or else result by result. */
export async function takeAnyAnswer<R>(
  endpoint: LookupEndpoint,
  call: AnsweredCall<LookupItem>,
  read: ReadResult<R>,
) {
  try {
    return await takeAnswer(endpoint, call, { read, discard() {} });
  } catch (error) {
    if (!(error instanceof LargeAnswerError)) throw error;
    return await takeLargeAnswer(endpoint, call, read);
  }
}

/** Reads an answer result by result. */
export async function takeLargeAnswer<R>(
  endpoint: LookupEndpoint,
  call: AnsweredCall<LookupItem>,
  read: ReadResult<R>,
) {
  const survey = surveyAnswer(endpoint, call, null);
  let step = await survey.next();
  while (!step.done) step = await survey.next();
  const paired = step.value;
  const drift = new DriftLog(endpoint.name);
  const options = { ...readingOf(endpoint, call), read };
  const results: (R | null | undefined)[] = paired.pairing.map(() => undefined);
  for await (const { position, found } of pairedResults(call, paired)) {
    results[position] = readOne(parseResult(found), options, {
      drift,
      completedAt: paired.completedAt,
    })?.value;
  }
  return { ...paired, results, drift: drift.entries() };
}
