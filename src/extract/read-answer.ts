import { setImmediate as letOthersRun } from "node:timers/promises";
import { cleanText, type Drift, DriftLog, instantText } from "../schemas/convert.ts";
import { hasError, readId } from "../schemas/error-body.ts";
import { isJsonObject, type JsonObject } from "../schemas/flatten.ts";
import { createScanner, cutBody, endScan, scan, type ScannedResult, type Scanner } from "./answer-body.ts";
import { parseBounded, type Parsed, parseElements, scalarsOf, TooLargeError } from "./json.ts";

export interface ReadContext {
  /** Collects differences from the declarations. */
  readonly drift: DriftLog;
  /** Completion time reported by the service if plausible, otherwise the time of receipt: UTC, microseconds kept. */
  readonly completedAt: string;
}

/** Maps one parsed result to its rows, so that the parsed result can be dropped at once. */
export type ReadResult<R> = (result: JsonObject, context: ReadContext) => R;

/** Reads the results of an answer. */
export interface ResultReader<R> {
  readonly read: ReadResult<R>;
  /** Discards everything that was read so far: the answer is read again. */
  discard(): void;
}

/** Beginning of a result, which pairs it with its record. */
export interface ResultHead {
  /** Key of its record; null for none. */
  readonly key: string | null;
  readonly isMatch: boolean;
}

interface FoundResult<R> extends ResultHead {
  /** Null if it is too large to load. */
  readonly value: R | null;
}

/** Answer to a lookup: one result per record, in the service's order. */
export interface Answer<R> {
  readonly kind: "answer";
  /** Undefined for a result that is not an object. */
  readonly results: readonly (FoundResult<R> | undefined)[];
  readonly apiRequestId: string | null;
  /** UTC, microseconds kept; null if absent or invalid. */
  readonly requestCompletedAt: string | null;
  readonly completedAt: string;
  readonly drift: readonly Drift[];
  /** After decompression. */
  readonly plainBytes: number;
}

/** Invalid body: not JSON, without a list of results, or with far more results than records were sent. */
interface Unreadable {
  readonly kind: "unreadable";
  readonly reason: "no_json" | "no_results" | "body_too_large";
}

interface ReadOptions<R> extends ResultReader<R> {
  /** Method and path, for drift. */
  readonly endpoint: string;
  /** Field of a result that identifies its record. */
  readonly keyField: string;
  readonly isMatch: (result: JsonObject) => boolean;
  /** Time of receipt, if the service does not report a completion time. */
  readonly receivedAt: string;
  /** Most results that are read: far more than records were sent are no answer. */
  readonly maxResults: number;
}

/** Bytes whose results are read before others may run. */
const TURN_BYTES = 48 * 1024;

/** Finds the results in bytes in memory, a part of them at a time. */
export function* resultsIn(scanner: Scanner, bytes: Buffer): Generator<ScannedResult> {
  for (let at = 0; at < bytes.length; at += TURN_BYTES)
    yield* scan(scanner, bytes.subarray(at, at + TURN_BYTES));
}

interface ParsedPart {
  readonly results: readonly Parsed[];
  readonly bytes: number;
}

export async function readAnswer<R>(bytes: Buffer, options: ReadOptions<R>): Promise<Answer<R> | Unreadable> {
  try {
    return (await readPieces(bytes, options)) ?? (await readResults(bytes, options));
  } catch (error) {
    const reason = reasonOf(error);
    if (reason === null) throw error;
    return { kind: "unreadable", reason };
  }
}

/** Reads a body piece by piece: much faster than result by result, with the same outcome. Null if that doesn't work. */
async function readPieces<R>(bytes: Buffer, options: ReadOptions<R>): Promise<Answer<R> | null> {
  const cut = cutBody(bytes, TURN_BYTES);
  if (cut === null) return null;
  const scanner = createScanner();
  try {
    const last = findResults(scanner, [cut.head, cut.tail], options);
    const { keys, first } = endScan(scanner) ?? {};
    // The end of another list of results.
    if (keys === undefined || first !== 0) return null;
    return await readParts(piecesOf(cut.pieces, last), { keys, plainBytes: bytes.length }, options);
  } catch (error) {
    if (reasonOf(error) === null) throw error;
    options.discard();
    return null;
  }
}

/** Reads a body result by result: what is read of each depends on its own bytes only. */
async function readResults<R>(bytes: Buffer, options: ReadOptions<R>): Promise<Answer<R> | Unreadable> {
  const scanner = createScanner();
  const found = findResults(scanner, [bytes], options);
  const { keys, first } = endScan(scanner) ?? {};
  if (keys === undefined) return { kind: "unreadable", reason: "no_json" };
  if (first === null || first === undefined) return { kind: "unreadable", reason: "no_results" };
  return await readParts(partsOf(found, first), { keys, plainBytes: bytes.length }, options);
}

/** Finds all results of some parts. Throws a TooLargeError for more than may be read. */
function findResults(
  scanner: Scanner,
  parts: readonly Buffer[],
  { maxResults }: Pick<ReadOptions<unknown>, "maxResults">,
): readonly ScannedResult[] {
  const found: ScannedResult[] = [];
  for (const part of parts) {
    for (const result of resultsIn(scanner, part)) {
      if (found.push(result) > maxResults) throw new TooLargeError();
    }
  }
  return found;
}

function* piecesOf(pieces: readonly Buffer[], last: readonly ScannedResult[]): Generator<ParsedPart> {
  for (const piece of pieces) yield { results: parseElements(piece), bytes: piece.length };
  yield* partsOf(last, 0);
}

/** Parses results one by one; those before the `first` are only checked. */
function* partsOf(found: readonly ScannedResult[], first: number): Generator<ParsedPart> {
  for (const result of found) {
    const parsed = parseResult(result);
    yield { results: result.index < first ? [] : [parsed], bytes: result.bytes.length };
  }
}

async function readParts<R>(
  parts: Iterable<ParsedPart>,
  { keys, plainBytes }: { readonly keys: Keys; readonly plainBytes: number },
  options: ReadOptions<R>,
): Promise<Answer<R>> {
  const envelope = envelopeOf(keys, options.receivedAt);
  const drift = new DriftLog(options.endpoint);
  drift.noteAround(keys, []);
  const context = { drift, completedAt: envelope.completedAt };
  const results: (FoundResult<R> | undefined)[] = [];
  let turnBytes = 0;
  for (const part of parts) {
    if (results.length + part.results.length > options.maxResults) throw new TooLargeError();
    for (const parsed of part.results) results.push(readOne(parsed, options, context));
    turnBytes += part.bytes;
    if (turnBytes < TURN_BYTES) continue;
    // Lets loaders send their next statement.
    await letOthersRun();
    turnBytes = 0;
  }
  return { kind: "answer", results, ...envelope, drift: drift.entries(), plainBytes };
}

/** Reason why a body is no answer; null for other errors. */
export function reasonOf(error: unknown): Unreadable["reason"] | null {
  if (error instanceof TooLargeError) return "body_too_large";
  return error instanceof SyntaxError ? "no_json" : null;
}

/** Results of an answer that can be read several times, without being in memory together. */
export interface RepeatableResults {
  /** All elements of the list, without text that no warehouse can store; changes are recorded as drift. */
  results(drift: DriftLog): Iterable<unknown>;
}

/** Opens an answer with a possibly long list of results, or null instead of an empty one; null if it is invalid. */
export function openResults(bytes: Buffer): RepeatableResults | null {
  const scanner = createScanner();
  try {
    // Parses everything once before using it.
    for (const result of resultsIn(scanner, bytes))
      if (parseResult(result).value instanceof LargeResult) return null;
    const { keys = {}, first = null } = endScan(scanner) ?? {};
    if (first === null && keys["results"] !== null) return null;
    if (scanner.results === (first ?? 0) && hasError(keys)) return null;
    return {
      *results(drift) {
        drift.noteAround(keys, []);
        for (const result of resultsIn(createScanner(), bytes)) {
          if (result.index < (first ?? 0)) continue;
          const { value, hasControlText } = parseResult(result);
          yield hasControlText ? cleanText(value, "", drift) : value;
        }
      },
    };
  } catch (error) {
    if (reasonOf(error) === null) throw error;
    return null;
  }
}

/** Text of an ID, which may be a number; null for others. */
export function keyText(value: unknown): string | null {
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value !== "" ? value : null;
}

type Keys = Readonly<Record<string, unknown>>;

/** A result that takes too much memory, with what its first bytes show. */
class LargeResult {
  readonly scalars: JsonObject;

  constructor(scalars: JsonObject) {
    this.scalars = scalars;
  }
}

/** Parses one result; its value is a {@link LargeResult} if it takes too much memory. */
export function parseResult(found: Pick<ScannedResult, "bytes" | "isCut">): Parsed {
  try {
    if (!found.isCut) return parseBounded(found.bytes);
  } catch (error) {
    if (!(error instanceof TooLargeError)) throw error;
  }
  return skimResult(found);
}

/** Reads no more of a result than its first bytes. */
export function skimResult({ bytes }: Pick<ScannedResult, "bytes">): Parsed {
  return { value: new LargeResult(scalarsOf(bytes)), hasControlText: false };
}

/** Where results have their keys and matches. */
type HeadOptions = Pick<ReadOptions<unknown>, "keyField" | "isMatch">;

/** Reads what pairs a result with its record; undefined if it is no object. */
export function headOf(parsed: unknown, { keyField, isMatch }: HeadOptions): ResultHead | undefined {
  const result = parsed instanceof LargeResult ? parsed.scalars : parsed;
  return isJsonObject(result) ? { key: keyText(result[keyField]), isMatch: isMatch(result) } : undefined;
}

/** Maps one result; undefined if it is no object. */
export function readOne<R>(
  { value, hasControlText }: Parsed,
  options: HeadOptions & Pick<ReadOptions<R>, "read">,
  context: ReadContext,
): FoundResult<R> | undefined {
  const head = headOf(value, options);
  if (head === undefined || value instanceof LargeResult) return head && { ...head, value: null };
  const clean = hasControlText ? cleanText(value, "", context.drift) : value;
  return { ...head, value: options.read(isJsonObject(clean) ? clean : {}, context) };
}

/** Maximum deviation of the service's clock. Times beyond it, such as those of the years 1970 and 9999, are ignored. */
const MAX_CLOCK_ERROR_MS = 1000 * 86_400_000;

/** Time from which an answer is valid. */
export function plausibleTime(requestCompletedAt: string | null, receivedAt: string): string {
  if (requestCompletedAt === null) return receivedAt;
  const errorMs = Math.abs(Date.parse(requestCompletedAt) - Date.parse(receivedAt));
  return errorMs > MAX_CLOCK_ERROR_MS ? receivedAt : requestCompletedAt;
}

export function envelopeOf({ api_request_id, request_completed_at }: Keys, receivedAt: string) {
  const requestCompletedAt = instantText(request_completed_at);
  const completedAt = plausibleTime(requestCompletedAt, receivedAt);
  return { apiRequestId: readId(api_request_id), requestCompletedAt, completedAt };
}
