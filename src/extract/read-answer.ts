import { setImmediate as letOthersRun } from "node:timers/promises";
import { cleanText } from "../schemas/json-text.ts";
import { instantText } from "../schemas/convert.ts";
import { type Drift, DriftLog } from "../schemas/drift.ts";
import { hasError, readId } from "../schemas/error-body.ts";
import { isJsonObject, type JsonObject } from "../schemas/flatten.ts";
import { type AnswerPiece, cutAnswer, REST_KEY } from "./cut-answer.ts";
import { parseExact } from "./exact-json.ts";

/** Properties of the whole answer. */
export interface ReadContext {
  /** Collects differences from the declarations. */
  readonly drift: DriftLog;
  /** Completion time reported by the service if plausible, otherwise the time of receipt: UTC, microseconds kept. */
  readonly answeredAt: string;
}

/**
 * Maps one parsed result to its rows; pure, so that the parsed result can be dropped at once. Throws nothing but a
 * TooLargeError.
 */
export type ReadResult<R> = (result: JsonObject, context: ReadContext) => R;

/** Result after mapping. */
export interface FoundResult<R> {
  /** Key of its record; null for none. */
  readonly key: string | null;
  readonly isMatch: boolean;
  readonly value: R;
}

/** Answer to a lookup: one result per record, in the service's order. */
export interface Answer<R> {
  readonly kind: "answer";
  /** Undefined for a result that is not an object. */
  readonly results: readonly (FoundResult<R> | undefined)[];
  readonly apiRequestId: string | null;
  /** UTC, microseconds kept; null if absent or invalid. */
  readonly requestCompletedAt: string | null;
  readonly answeredAt: string;
  readonly drift: readonly Drift[];
  /** Size of the body after decompression. */
  readonly plainBytes: number;
}

/** Invalid body: not JSON, or JSON without a list of results. */
export interface Unreadable {
  readonly kind: "unreadable";
  readonly reason: "no_json" | "no_results" | "body_too_large";
}

/** Options of {@link readAnswer}. */
export interface ReadOptions<R> {
  /** Method and path, for drift. */
  readonly endpoint: string;
  /** Field of a result that identifies its record. */
  readonly keyField: string;
  readonly isMatch: (result: JsonObject) => boolean;
  readonly read: ReadResult<R>;
  /** Time of receipt, if the service does not report a completion time. */
  readonly receivedAt: string;
  /** Most results that are read: far more than records were sent are no answer. */
  readonly maxResults?: number;
  /** Bytes of a piece, for tests. */
  readonly pieceBytes?: number;
}

/** Pieces up to this size are parsed without estimating their memory. */
const SMALL_BYTES = 1024 * 1024;
/** Maximum heap of a parsed piece. */
const MAX_HEAP_BYTES = 64 * 1024 * 1024;
/** Maximum heap of a value, key or container, besides its text. */
const VALUE_BYTES = 40;
const STRUCTURE: ReadonlySet<number> = new Set(Array.from("[{,:", (c) => c.charCodeAt(0)));

/** A piece or its parsed result would exceed the available memory. */
export class TooLargeError extends Error {
  override readonly name = "TooLargeError";
}

/** False where a piece, parsed, could exhaust the heap: a few KB of gzip may hold millions of empty lists. */
export function fitsHeap(bytes: Buffer, start: number, end: number): boolean {
  if (end - start <= SMALL_BYTES) return true;
  let values = 0;
  for (let i = start; i < end; i++) if (STRUCTURE.has(bytes[i] ?? 0)) values += 1;
  return 2 * (end - start) + VALUE_BYTES * values <= MAX_HEAP_BYTES;
}

function keyText(value: unknown): string | null {
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value !== "" ? value : null;
}

/** NUL or any surrogate: lone surrogates can't be distinguished from pairs without parsing. */
export const CONTROL_ESCAPE = /\\u(?:0000|[dD][89a-fA-F])/u;

/** Consecutive results, with a flag for text that may contain NUL or lone surrogates. */
interface ResultList {
  readonly results: readonly unknown[];
  readonly hasControlText: boolean;
}

type Keys = Readonly<Record<string, unknown>>;

/** Parses a piece of the body. Invalid UTF-8 becomes U+FFFD, so that one bad character doesn't lose a paid answer. */
function parsePiece(
  bytes: Buffer,
  { start, end, before, after }: AnswerPiece,
): { value: unknown; hasControlText: boolean } {
  if (!fitsHeap(bytes, start, end)) throw new TooLargeError();
  const isInner = before === "[" && after === "]";
  const piece = isInner ? bracketed(bytes, start, end) : bytes.toString("utf8", start, end);
  const text = isInner ? piece : `${before}${piece.startsWith("\uFEFF") ? piece.slice(1) : piece}${after}`;
  return { value: parseExact(text), hasControlText: piece.includes("\\u") && CONTROL_ESCAPE.test(piece) };
}

/** Text between two commas, with brackets written in place of the commas to avoid a copy. */
function bracketed(bytes: Buffer, start: number, end: number): string {
  const [before, after] = [bytes[start - 1] ?? 0, bytes[end] ?? 0];
  bytes.write("[", start - 1);
  bytes.write("]", end);
  const text = bytes.toString("utf8", start - 1, end + 1);
  bytes[start - 1] = before;
  bytes[end] = after;
  return text;
}

/** Returns the keys of a parsed envelope in order; null if it is not an object. */
function keysOf(value: unknown): Keys | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : null;
}

/** Parts of an answer: its keys except the results, and the results list by list. */
interface Parts {
  readonly keys: Keys;
  lists(): Iterable<ResultList>;
}

function readWhole(bytes: Buffer): Parts | Unreadable {
  let parsed;
  try {
    parsed = parsePiece(bytes, { start: 0, end: bytes.length, before: "", after: "" });
  } catch (error) {
    if (error instanceof TooLargeError) return { kind: "unreadable", reason: "body_too_large" };
    return { kind: "unreadable", reason: "no_json" };
  }
  const { results, ...keys } = keysOf(parsed.value) ?? {};
  if (!Array.isArray(results)) return { kind: "unreadable", reason: "no_results" };
  return { keys, lists: () => [{ results, hasControlText: parsed.hasControlText }] };
}

/** A body was split at a wrong position. */
class MiscutError extends Error {}

/** True for errors that a wrong split can cause. */
function isMiscut(error: unknown): boolean {
  return error instanceof MiscutError || error instanceof SyntaxError || error instanceof TooLargeError;
}

function listIn(value: unknown, hasControlText: boolean): ResultList {
  if (!Array.isArray(value)) throw new MiscutError();
  return { results: value, hasControlText };
}

/**
 * Parses a long body piece by piece, so that its results are never in memory at once. Parses both ends first, because the
 * envelope's keys can precede or follow the results. Throws, now or later, if the split was wrong.
 */
function readPieces(bytes: Buffer, pieces: readonly AnswerPiece[]): Parts {
  const [first, ...others] = pieces;
  const last = others.pop();
  if (!first || !last) throw new MiscutError();
  const head = parsePiece(bytes, first);
  const tail = parsePiece(bytes, last);
  const headKeys = keysOf(head.value) ?? {};
  const tailKeys = keysOf(tail.value) ?? {};
  // Split in a list other than the results, or a second list of results after it.
  if (Object.keys(headKeys).at(-1) !== "results" || "results" in tailKeys) throw new MiscutError();
  const { results, ...keysBefore } = headKeys;
  const { [REST_KEY]: rest, ...keysAfter } = tailKeys;
  const lists = [listIn(results, head.hasControlText), listIn(rest, tail.hasControlText)] as const;
  return {
    keys: { ...keysBefore, ...keysAfter },
    *lists() {
      yield lists[0];
      for (const piece of others) {
        const { value, hasControlText } = parsePiece(bytes, piece);
        yield listIn(value, hasControlText);
      }
      yield lists[1];
    },
  };
}

function readOne<R>(
  result: unknown,
  hasControlText: boolean,
  options: ReadOptions<R>,
  context: ReadContext,
): FoundResult<R> | undefined {
  if (!isJsonObject(result)) return undefined;
  const clean = hasControlText ? cleanText(result, "", context.drift) : result;
  return {
    key: keyText(result[options.keyField]),
    isMatch: options.isMatch(result),
    value: options.read(isJsonObject(clean) ? clean : {}, context),
  };
}

/**
 * Maximum deviation of the service's clock. Times beyond it are ignored: an answer from the year 9999 would never be
 * refreshed or replaced.
 */
const MAX_CLOCK_ERROR_MS = 1000 * 86_400_000;

/** Time from which an answer is valid. */
export function ageOf(requestCompletedAt: string | null, receivedAt: string): string {
  if (requestCompletedAt === null) return receivedAt;
  const errorMs = Math.abs(Date.parse(requestCompletedAt) - Date.parse(receivedAt));
  return errorMs > MAX_CLOCK_ERROR_MS ? receivedAt : requestCompletedAt;
}

async function readParts<R>(parts: Parts, plainBytes: number, options: ReadOptions<R>): Promise<Answer<R>> {
  const { api_request_id, request_completed_at } = parts.keys;
  const requestCompletedAt = instantText(request_completed_at);
  const drift = new DriftLog(options.endpoint);
  const context = { drift, answeredAt: ageOf(requestCompletedAt, options.receivedAt) };
  const results: (FoundResult<R> | undefined)[] = [];
  const { maxResults = Number.POSITIVE_INFINITY } = options;
  for (const list of parts.lists()) {
    if (results.length + list.results.length > maxResults) throw new TooLargeError();
    for (const result of list.results) results.push(readOne(result, list.hasControlText, options, context));
    // Lets loaders send their next statement.
    await letOthersRun();
  }
  return {
    kind: "answer",
    results,
    apiRequestId: readId(api_request_id),
    requestCompletedAt,
    answeredAt: context.answeredAt,
    drift: drift.entries(),
    plainBytes,
  };
}

/** Results of an answer that can be read several times, each time piece by piece. */
export interface RepeatableResults {
  /** All elements of the list, without text that no warehouse can store; changes are recorded as drift. */
  results(drift: DriftLog): Iterable<unknown>;
}

/** Opens an answer with a possibly long list of results, or null instead of an empty one; null if it is invalid. */
export function openResults(bytes: Buffer): RepeatableResults | null {
  const parts = openParts(bytes);
  if (parts === null) return null;
  return {
    *results(drift) {
      for (const { results, hasControlText } of parts.lists()) {
        for (const result of results) yield hasControlText ? cleanText(result, "", drift) : result;
      }
    },
  };
}

function openParts(bytes: Buffer): Pick<Parts, "lists"> | null {
  const pieces = cutAnswer(bytes);
  if (pieces) {
    try {
      const parts = readPieces(bytes, pieces);
      // Parsing shows a wrong split, so parse everything once before using it.
      for (const list of parts.lists()) void list;
      return parts;
    } catch (error) {
      if (!isMiscut(error)) throw error;
    }
  }
  const whole = readWhole(bytes);
  if (!("kind" in whole)) return isEmpty(whole) && hasError(whole.keys) ? null : whole;
  return whole.reason === "no_results" && statesNull(bytes) ? { lists: () => [] } : null;
}

/** True for an answer with null instead of an empty list. */
function statesNull(bytes: Buffer): boolean {
  try {
    const keys = keysOf(JSON.parse(bytes.toString("utf8"))) ?? {};
    return keys["results"] === null && !hasError(keys);
  } catch {
    return false;
  }
}

function isEmpty(parts: Parts): boolean {
  return [...parts.lists()].every(({ results }) => results.length === 0);
}

/** Reads the body of a 200 response, long ones piece by piece. The result is the same as parsing it as a whole. */
export async function readAnswer<R>(bytes: Buffer, options: ReadOptions<R>): Promise<Answer<R> | Unreadable> {
  const pieces = cutAnswer(bytes, options.pieceBytes);
  if (pieces) {
    try {
      return await readParts(readPieces(bytes, pieces), bytes.length, options);
    } catch (error) {
      // Parsing the whole body distinguishes a wrong split from invalid JSON.
      if (!isMiscut(error)) throw error;
    }
  }
  const whole = readWhole(bytes);
  return "kind" in whole ? whole : await readParts(whole, bytes.length, options);
}
