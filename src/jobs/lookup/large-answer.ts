import { crashPoint } from "../../crash-point.ts";
import type { Body } from "../../file-part.ts";
import { parseResult, readOne } from "../../extract/read-answer.ts";
import { pairedResults, surveyAnswer, type SurveyedAnswer } from "../../extract/large-answer.ts";
import { readingOf } from "../../extract/take-answer.ts";
import { createRowStore } from "../../load/lookups/row-store.ts";
import { DriftLog } from "../../schemas/drift.ts";
import type { JsonObject } from "../../schemas/flatten.ts";
import type { Spool, SpooledCall } from "../../spool/spool.ts";
import {
  addOutcome,
  type AnswerPart,
  type AnswerRows,
  answeredCall,
  MAX_ROW_BYTES,
  rowMakerOf,
} from "./answer-rows.ts";
import type { AnswerHeader } from "./answer-header.ts";

/** Answer that is read result by result. */
interface LargeAnswer {
  readonly spool: Spool;
  readonly header: AnswerHeader;
  /** As received; the path of one in a file is that of `place`. */
  readonly body: Body;
  /** Where it is on disk; null if it could not be written. */
  readonly place: Place;
}

/** Place of an answer's file, which changes with its marks. */
export interface Place {
  file: SpooledCall | null;
}

/** Rows of a part; a longer result is a part of its own. */
const PART_BYTES = 8 * 1024 * 1024;
/** Ended loads after which the result that was being read is rejected. */
const MAX_RESULT_TRIES = 2;

/** Present path of the body. */
function bodyOf({ body, place }: LargeAnswer): Body {
  return Buffer.isBuffer(body) || place.file === null ? body : { ...body, path: place.file.path };
}

async function mark({ spool, place }: LargeAnswer, at: number | null): Promise<void> {
  if (place.file) place.file = await spool.markResult(place.file, at);
  if (at !== null) crashPoint("before_result");
}

/**
 * Reads an answer result by result, in little memory: once to check and pair its results, then again for their rows. The file's name
 * says which result is being read, so that one which kills the process costs no other: the next load reads it last, and
 * the one after that rejects it.
 */
export async function readLarge(answer: LargeAnswer): Promise<AnswerRows> {
  const { header, place } = answer;
  const { endpoint } = rowMakerOf(header);
  const suspect = place.file?.at ?? null;
  const survey = surveyAnswer(endpoint, answeredCall(header, bodyOf(answer)), suspect);
  for (;;) {
    const step = await survey.next();
    if (step.done) {
      await mark(answer, null);
      const { summary, attempt } = step.value;
      return { header, summary, attempt, parts: partsOf(answer, step.value, suspect), isUnloadable: false };
    }
    await mark(answer, step.value);
  }
}

function newPart(): AnswerPart {
  return { answers: [], rejects: [], drift: [], isLast: false, store: createRowStore() };
}

/** Makes the rows of a surveyed answer part by part. */
async function* partsOf(
  answer: LargeAnswer,
  paired: SurveyedAnswer,
  suspect: number | null,
): AsyncGenerator<AnswerPart> {
  const { header, place } = answer;
  const { endpoint, makeRows } = rowMakerOf(header);
  const call = answeredCall(header, bodyOf(answer));
  const drift = new DriftLog(endpoint.name);
  const context = { drift, answeredAt: paired.answeredAt };
  const isRejected = suspect !== null && (place.file?.tries ?? 0) > MAX_RESULT_TRIES;
  let part: AnswerPart = newPart();
  let bytes = 0;
  const rounds = suspect === null ? [null] : (["others", "suspect"] as const);
  for (const round of rounds) {
    const body = bodyOf(answer);
    for await (const { position, found } of pairedResults({ ...call, body }, paired)) {
      const record = header.records[position];
      if (record === undefined || (round !== null && (round === "suspect") !== (found.index === suspect)))
        continue;
      if (round === "suspect" && isRejected) {
        part.rejects.push({
          record,
          stage: "load",
          code: "answer_unloadable",
          message: `${endpoint.name}: the process ended ${MAX_RESULT_TRIES} times while it read the result of this record.`,
          details: null,
          apiRequestId: paired.apiRequestId,
        });
        continue;
      }
      await mark(answer, found.index);
      const read = (result: JsonObject) => makeRows(part.store, result, context);
      const rows =
        readOne(parseResult(found), { ...readingOf(endpoint, call), read }, context)?.value ?? null;
      const isTooLarge = rows === null || rows.bytes > MAX_ROW_BYTES;
      addOutcome(part, { header, paired }, record, isTooLarge ? null : rows);
      bytes += rows?.bytes ?? 0;
      // Two records: if the database refuses all values of a part, its table may be the cause.
      if (bytes < PART_BYTES || part.answers.length < 2) continue;
      await mark(answer, null);
      yield part;
      part = newPart();
      bytes = 0;
    }
  }
  await mark(answer, null);
  yield { ...part, drift: drift.entries(), isLast: true };
}
