import { freeBytes } from "../../free-bytes.ts";
import type { Body } from "../../file-part.ts";
import { type ReadContext } from "../../extract/read-answer.ts";
import {
  type AnsweredCall,
  LargeAnswerError,
  type PairedAnswer,
  type ReadSummary,
  takeAnswer,
  UnderstatedSizeError,
  unreadAttempt,
} from "../../extract/take-answer.ts";
import type { LookupAnswer, LookupReject } from "../../load/lookups/answer.ts";
import type { LookupRecord } from "../../load/lookups/lookup.ts";
import { type EncodedPerson, encodePerson } from "../../load/lookups/person-groups.ts";
import { createRowStore, type RowStore } from "../../load/lookups/row-store.ts";
import type { Attempt } from "../../schemas/attempt.ts";
import type { Drift } from "../../schemas/drift.ts";
import type { JsonObject } from "../../schemas/flatten.ts";
import type { AnswerHeader } from "./answer-header.ts";
import type { AnsweredPart } from "./lookup-type.ts";
import { lookupAsked } from "./lookup-types.ts";

/** Rows that are committed together. */
export interface AnswerPart {
  readonly answers: LookupAnswer[];
  readonly rejects: LookupReject[];
  readonly drift: readonly Drift[];
  /** True for the last part, with which the call is settled in the ledger. */
  readonly isLast: boolean;
  /** Memory of the people in it. */
  readonly store: RowStore;
}

/** Answer as rows, to be committed. */
export interface AnswerRows {
  readonly header: AnswerHeader;
  readonly summary: ReadSummary;
  readonly attempt: Attempt;
  /** One, unless the answer is too large to be in memory: then each part is made once the one before is committed. */
  readonly parts: Iterable<AnswerPart> | AsyncIterable<AnswerPart>;
  /** True if it failed to load too often: all its records without an answer are rejected. */
  readonly isUnloadable: boolean;
}

/** Rows of one result. */
interface ResultRows extends Omit<AnsweredPart, "person"> {
  readonly person: EncodedPerson | null;
  readonly bytes: number;
}

/** Rows of one answer that are in memory together: short elements become rows of many times their size. */
export const MAX_ROW_BYTES = 32 * 1024 * 1024;
/** Failed loads after which an answer is quarantined. */
export const MAX_TRIES = 3;

/** Returns the call of an answer. */
export function answeredCall(
  { call, records, doubts }: AnswerHeader,
  body: Body,
): AnsweredCall<LookupRecord> {
  return { ...call, items: records, possiblyBilledBefore: doubts, body };
}

/** Makes the rows of results, with the people in a store. */
export function rowMakerOf({ spec, parameters }: AnswerHeader) {
  const { endpoint, read } = lookupAsked(spec.type, parameters);
  const makeRows = (store: Pick<RowStore, "add">, result: JsonObject, { drift }: ReadContext): ResultRows => {
    const part = read(result, drift);
    const person = part.person && encodePerson(part.person, store);
    const bytes = [...part.cells, part.extra].reduce(
      (sum, cell) => sum + (cell?.length ?? 0),
      person?.bytes ?? 0,
    );
    return { ...part, person, bytes };
  };
  return { endpoint, makeRows };
}

/** Adds the outcome of a record to a part. @param rows null for a result that is too large */
export function addOutcome(
  part: Pick<AnswerPart, "answers" | "rejects">,
  { header, paired }: { readonly header: AnswerHeader; readonly paired: PairedAnswer },
  record: LookupRecord,
  rows: ResultRows | null,
): void {
  const { apiRequestId, answeredAt } = paired;
  const { endpoint, callId } = header.call;
  const reject = (code: string, message: string) =>
    part.rejects.push({
      record,
      stage: "answer",
      code,
      message: `${endpoint}: ${message}`,
      details: null,
      apiRequestId,
    });
  if (rows === null) {
    reject(
      "answer_too_large",
      "the result of this record is too large to load. The other results of its answer are loaded.",
    );
  } else if (rows.outcome === "no_pid") reject("no_pid", "the service reports a match without a PID.");
  else {
    const { outcome, servicePid, cells, extra, person } = rows;
    part.answers.push({
      record,
      outcome,
      servicePid,
      cells,
      extra,
      person,
      apiRequestId,
      answeredAt,
      callId,
    });
  }
}

/**
 * Parses an answer and makes the rows of each record's result. Throws a LargeAnswerError if these are too much for the memory.
 * @param maxBytes memory that was taken for it; throws if the answer takes more. Undefined if it is alone.
 */
export async function rowsOf(
  header: AnswerHeader,
  body: Body,
  maxBytes?: number,
): Promise<AnswerRows & { readonly rowBytes: number }> {
  const { endpoint, makeRows } = rowMakerOf(header);
  const store = createRowStore();
  let rowBytes = 0;
  const toRows = (result: JsonObject, context: ReadContext) => {
    const rows = makeRows(store, result, context);
    rowBytes += rows.bytes;
    if (rowBytes > MAX_ROW_BYTES)
      throw new LargeAnswerError("The answer's rows are too large for the memory.");
    if (rowBytes > 2 * (maxBytes ?? MAX_ROW_BYTES)) {
      throw new UnderstatedSizeError("The answer's rows are larger than its size suggests.");
    }
    return rows;
  };
  try {
    const { results, drift, ...paired } = await takeAnswer(
      endpoint,
      answeredCall(header, body),
      toRows,
      maxBytes,
    );
    const part: AnswerPart = { answers: [], rejects: [], drift, isLast: true, store };
    for (const [i, record] of header.records.entries()) {
      const rows = results[i];
      if (rows !== undefined) addOutcome(part, { header, paired }, record, rows);
    }
    const { summary, attempt } = paired;
    return { header, summary, attempt, parts: [part], isUnloadable: false, rowBytes };
  } catch (error) {
    store.free();
    throw error;
  }
}

/** Returns the rows of an answer without results, in place of one that repeats another. */
export async function noRows(header: AnswerHeader): Promise<AnswerRows> {
  const plain = { ...header, call: { ...header.call, contentEncoding: null } };
  const { rowBytes: _, ...rows } = await rowsOf(plain, Buffer.from('{"results":[]}'));
  return { ...rows, header };
}

/** Rejects the records of an answer that can't be loaded. @param loaded contents that a part of it answered before */
export function unloadable(header: AnswerHeader, body: Body, loaded: ReadonlySet<string>): AnswerRows {
  const why = {
    stage: "load",
    code: "answer_unloadable",
    message: `The answer could not be loaded in ${MAX_TRIES} tries. It is kept in the spool's quarantine.`,
    details: null,
    apiRequestId: null,
  } as const;
  const records = header.records.filter(({ content }) => !loaded.has(content));
  const rejects = records.map((record) => ({ record, ...why }));
  return {
    header,
    summary: { kind: "answer", missing: [], plainBytes: 0, apiRequestId: null },
    attempt: unreadAttempt(answeredCall(header, body)),
    parts: [{ answers: [], rejects, drift: [], isLast: true, store: createRowStore() }],
    isUnloadable: true,
  };
}

/** Frees a body in memory. Nothing may read it afterwards. */
export function freeBody(body: Body): void {
  if (Buffer.isBuffer(body)) freeBytes(body);
}
