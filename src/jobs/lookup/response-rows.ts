import { crashPoint } from "../../crash-point.ts";
import type { HttpResponse } from "../../extract/http-client.ts";
import {
  type AnsweredCall,
  LargeAnswerError,
  type PairedAnswer,
  pairedResults,
  readingOf,
  type ReadSummary,
  surveyAnswer,
  type SurveyedAnswer,
  takeAnswer,
  UnderstatedSizeError,
  unreadAttempt,
} from "../../extract/take-answer.ts";
import { parseResult, type ReadContext, readOne } from "../../extract/read-answer.ts";
import type { CallFacts, EndedCall } from "../../extract/send-call.ts";
import { type Body, freeBytes } from "../../body.ts";
import { kindOf } from "./lookup-spec.ts";
import { type AnsweredPart, answerReader } from "./lookup-types.ts";
import type { LoadSpec, LookupAnswer, LookupRecord, LookupReject } from "../../load/lookups/lookup.ts";
import type { LookupType } from "../../load/inputs/input.ts";
import {
  createRowStore,
  type EncodedPerson,
  encodePerson,
  type RowStore,
} from "../../load/lookups/person-groups.ts";
import type { RunRef } from "../../load/runs/fence.ts";
import type { Attempt } from "../../schemas/ledger.ts";
import { type Drift, DriftLog } from "../../schemas/convert.ts";
import type { JsonObject } from "../../schemas/flatten.ts";
import type { Spool } from "../../spool/spool.ts";
import type { SpooledCall } from "../../spool/files.ts";

export interface AnswerPart {
  readonly answers: LookupAnswer[];
  readonly rejects: LookupReject[];
  readonly drift: readonly Drift[];
  /** True for the last part, with which the call is settled in the ledger. */
  readonly isLast: boolean;
  /** Memory of the people in it. */
  readonly store: RowStore;
}

export interface AnswerRows {
  readonly header: AnswerHeader;
  readonly summary: ReadSummary;
  readonly attempt: Attempt;
  /** One, unless the answer is too large to be in memory: then each part is made once the one before is committed. */
  readonly parts: Iterable<AnswerPart> | AsyncIterable<AnswerPart>;
  /** True if it failed to load too often: all its records without an answer are rejected. */
  readonly isUnloadable: boolean;
}

interface ResultRows extends Omit<AnsweredPart, "person"> {
  readonly person: EncodedPerson | null;
  readonly bytes: number;
}

/** Rows of one answer that are in memory together: short elements become rows of many times their size. */
const MAX_ROW_BYTES = 32 * 1024 * 1024;
/** Failed loads after which an answer is quarantined. */
export const MAX_TRIES = 3;

function answeredCall({ call, records, doubts }: AnswerHeader, body: Body): AnsweredCall<LookupRecord> {
  return { ...call, items: records, possiblyBilledBefore: doubts, body };
}

function rowMakerOf({ spec, parameters }: AnswerHeader) {
  const { endpoint, read } = answerReader(spec.type, parameters);
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
function addOutcome(
  part: Pick<AnswerPart, "answers" | "rejects">,
  { header, paired }: { readonly header: AnswerHeader; readonly paired: PairedAnswer },
  record: LookupRecord,
  rows: ResultRows | null,
): void {
  const { apiRequestId, completedAt } = paired;
  const { endpoint, callId } = header.call;
  if (rows === null || rows.outcome === "no_pid") {
    const [code, message] =
      rows === null
        ? [
            "answer_too_large",
            "the result of this record is too large to load. The other results of the response are loaded.",
          ]
        : ["no_pid", "the service reports a match without a PID."];
    const why = { stage: "answer", code, message: `${endpoint}: ${message}`, details: null } as const;
    part.rejects.push({ record, ...why, apiRequestId });
  } else {
    const { bytes: _, outcome, ...result } = rows;
    part.answers.push({ record, outcome, ...result, apiRequestId, completedAt, callId });
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
  const discard = () => {
    store.free();
    rowBytes = 0;
  };
  const read = (result: JsonObject, context: ReadContext) => {
    const rows = makeRows(store, result, context);
    rowBytes += rows.bytes;
    if (rowBytes > MAX_ROW_BYTES)
      throw new LargeAnswerError("The rows of the response are too large for the memory.");
    if (rowBytes > 2 * (maxBytes ?? MAX_ROW_BYTES)) {
      throw new UnderstatedSizeError("The rows of the response are larger than its size suggests.");
    }
    return rows;
  };
  try {
    const call = answeredCall(header, body);
    const { results, drift, ...paired } = await takeAnswer(endpoint, call, { read, discard }, maxBytes);
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
    message: `The response could not be loaded in ${MAX_TRIES} tries. It is kept in the spool's quarantine.`,
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

async function* partsOf(
  answer: LargeAnswer,
  paired: SurveyedAnswer,
  suspect: number | null,
): AsyncGenerator<AnswerPart> {
  const { header, place } = answer;
  const { endpoint, makeRows } = rowMakerOf(header);
  const call = answeredCall(header, bodyOf(answer));
  const drift = new DriftLog(endpoint.name);
  const context = { drift, completedAt: paired.completedAt };
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

/** Version of the header; increment it when older versions of the program could misread it. */
const FORM = 3;

/**
 * Description of a spooled response with everything needed to load it, independent of the current configuration. It is on disk: other
 * keys, also those of its parts, need another form.
 */
export interface AnswerHeader {
  readonly form: typeof FORM;
  /** Warehouse for which it was received, as in the name of the folder. */
  readonly warehouse: string;
  readonly run: Omit<RunRef, "epoch">;
  readonly spec: LoadSpec;
  /** Request parameters besides the records, such as the requested fields. */
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly call: Pick<CallFacts, "endpoint" | "callId" | "attempt" | "startedAtMs" | "milliseconds"> & {
    readonly contentEncoding: string | null;
  };
  /** In request order. */
  readonly records: readonly LookupRecord[];
  /** As `possiblyBilledBefore` of the call. */
  readonly doubts: readonly number[];
}

export type HeaderOfRun = Pick<AnswerHeader, "warehouse" | "run" | "spec" | "parameters">;

export function headerOf(
  { warehouse, run, spec, parameters }: HeaderOfRun,
  call: EndedCall<LookupRecord>,
  { contentEncoding }: HttpResponse,
): AnswerHeader {
  const { runId, job, jobType, shard } = run;
  const { endpoint, callId, attempt, startedAtMs, milliseconds, items } = call;
  return {
    form: FORM,
    warehouse,
    run: { runId, job, jobType, shard },
    spec: { job: spec.job, type: spec.type, source: spec.source, kind: spec.kind },
    parameters,
    call: { endpoint, callId, attempt, startedAtMs, milliseconds, contentEncoding },
    records: items,
    doubts: call.possiblyBilledBefore,
  };
}

/** A header of version 2, whose records are numbered in a table of its run. */
interface NumberedHeader extends Omit<AnswerHeader, "form" | "spec" | "records"> {
  readonly form: 2;
  readonly spec: {
    readonly job: string;
    readonly type: LookupType;
    readonly input: { readonly name: string };
  };
  readonly records: readonly (Omit<LookupRecord, "content"> & { readonly sentHash: string })[];
}

/** Parses a header; null if another version of the program wrote it. */
export function readHeader(header: unknown): AnswerHeader | null {
  // The checksum covers these bytes, so a header with one of these versions has its fields.
  const read = header as AnswerHeader | NumberedHeader;
  if (read.form === FORM) return read;
  if (read.form !== 2) return null;
  const { spec, records } = read;
  const { job, type, input } = spec;
  return {
    ...read,
    form: FORM,
    spec: { job, type, source: input.name, kind: kindOf(type, read.parameters) },
    records: records.map(({ sentHash, ...record }) => ({
      ...record,
      content: record.address === undefined ? sentHash : Buffer.from(record.address).toString("hex"),
    })),
  };
}
