import type { ReadSummary } from "../../extract/settle.ts";
import { type AnsweredCall, takeAnswer, unreadAttempt } from "../../extract/take-answer.ts";
import { preparePerson } from "../../load/answers/person-groups.ts";
import type { Db } from "../../load/db/db.ts";
import type { Drift } from "../../schemas/drift.ts";
import type { AnswerHeader } from "./answer-header.ts";
import { lookupAsked } from "./lookup-types.ts";
import type { LookupAnswer, LookupReject } from "../../load/answers/answer.ts";
import type { LookupRecord } from "../../load/due/lookup-record.ts";
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
}

function answeredCall({ call, records, doubts }: AnswerHeader, body: Buffer): AnsweredCall<LookupRecord> {
  return { ...call, items: records, doubts, body };
}

/** Parses a spooled answer into the rows of each record. */
export async function readCall(
  db: Pick<Db, "storeRows">,
  header: AnswerHeader,
  body: Buffer,
): Promise<ReadCall> {
  const { call, records, spec, parameters } = header;
  const { endpoint, read } = lookupAsked(spec.type, parameters);
  const taken = await takeAnswer(endpoint, answeredCall(header, body), (result, { drift }) => {
    const part = read(result, drift);
    return { ...part, person: part.person && preparePerson(db, part.person) };
  });
  const { summary, attempt, results, apiRequestId, answeredAt, drift } = taken;
  const answers = records.flatMap((record, i): LookupAnswer[] => {
    const rows = results[i];
    return rows ? [{ record, ...rows, apiRequestId, answeredAt, callId: call.callId }] : [];
  });
  return { header, summary, attempt, answers, rejects: [], drift };
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
  };
}
