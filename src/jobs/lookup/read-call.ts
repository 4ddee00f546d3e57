import { type ReadContext, TooLargeError } from "../../extract/read-answer.ts";
import type { ReadSummary } from "../../extract/settle.ts";
import {
  type AnsweredCall,
  takeAnswer,
  UnderstatedSizeError,
  unreadAttempt,
} from "../../extract/take-answer.ts";
import { encodePerson } from "../../load/lookups/person-groups.ts";
import type { RowStore } from "../../load/lookups/row-store.ts";
import type { Drift } from "../../schemas/drift.ts";
import type { JsonObject } from "../../schemas/flatten.ts";
import type { AnswerHeader } from "./answer-header.ts";
import { lookupAsked } from "./lookup-types.ts";
import type { LookupAnswer, LookupReject } from "../../load/lookups/answer.ts";
import type { LookupRecord } from "../../load/lookups/lookup.ts";
import type { Attempt } from "../../schemas/attempt.ts";

/** Spooled answer as rows. */
export interface ReadCall {
  readonly header: AnswerHeader;
  readonly summary: ReadSummary;
  readonly attempt: Attempt;
  readonly answers: readonly LookupAnswer[];
  /** Records of an answer that can't be loaded. */
  readonly rejects: readonly LookupReject[];
  readonly drift: readonly Drift[];
  /** Size of the people's rows. */
  readonly rowBytes: number;
}

/** Rows of one answer: short elements become rows of many times their size. */
const MAX_ROW_BYTES = 32 * 1024 * 1024;

function answeredCall({ call, records, doubts }: AnswerHeader, body: Buffer): AnsweredCall<LookupRecord> {
  return { ...call, items: records, doubts, body };
}

/**
 * Reads a spooled answer: parses it, and makes the rows of each record's result.
 * @param maxBytes plain size for which memory is set aside; throws if the answer takes more. Undefined if it is alone.
 */
export async function readCall(
  store: Pick<RowStore, "add">,
  header: AnswerHeader,
  body: Buffer,
  maxBytes?: number,
): Promise<ReadCall> {
  const { call, records, spec, parameters } = header;
  const { endpoint, read } = lookupAsked(spec.type, parameters);
  const answered = answeredCall(header, body);
  let rowBytes = 0;
  const toRows = (result: JsonObject, { drift }: ReadContext) => {
    const part = read(result, drift);
    const person = part.person && encodePerson(part.person, store);
    rowBytes += person?.bytes ?? 0;
    if (rowBytes > MAX_ROW_BYTES) throw new TooLargeError("The answer's rows are too large.");
    if (rowBytes > 2 * (maxBytes ?? MAX_ROW_BYTES)) {
      throw new UnderstatedSizeError("The answer's rows are larger than its size suggests.");
    }
    return { ...part, person };
  };
  const taken = await takeAnswer(endpoint, answered, toRows, maxBytes);
  const { summary, attempt, results, apiRequestId, answeredAt, drift } = taken;
  const answers = records.flatMap((record, i): LookupAnswer[] => {
    const rows = results[i];
    return rows ? [{ record, ...rows, apiRequestId, answeredAt, callId: call.callId }] : [];
  });
  return { header, summary, attempt, answers, rejects: [], drift, rowBytes };
}

/** Rejects all records of an answer that can't be loaded. */
export function rejectCall(header: AnswerHeader, body: Buffer, message: string): ReadCall {
  const why = {
    stage: "load",
    code: "answer_unloadable",
    message,
    details: null,
    apiRequestId: null,
  } as const;
  return {
    header,
    summary: { kind: "answer", missing: [], plainBytes: 0, apiRequestId: null },
    attempt: unreadAttempt(answeredCall(header, body)),
    answers: [],
    rejects: header.records.map((record) => ({ record, ...why })),
    drift: [],
    rowBytes: 0,
  };
}
