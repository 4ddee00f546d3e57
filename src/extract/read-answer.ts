import { setImmediate as letOthersRun } from "node:timers/promises";
import { cleanText } from "../schemas/clean-text.ts";
import { instantText } from "../schemas/convert.ts";
import { type Drift, DriftLog } from "../schemas/drift.ts";
import { tellsError } from "../schemas/error-body.ts";
import { isJsonObject, type JsonObject } from "../schemas/flatten.ts";
import { type AnswerPiece, cutAnswer, REST_KEY } from "./cut-answer.ts";
import { parseExact } from "./exact-json.ts";

/** Facts about an answer as a whole. */
export interface ReadContext {
  /** Collects differences from the declarations. */
  readonly drift: DriftLog;
  /** Completion time by the service's word, if likely, else the time of receipt: UTC, microseconds kept. */
  readonly answeredAt: string;
}

/** Maps one parsed result to its rows; pure, so that the parsed result can be dropped at once. Must not throw. */
export type ReadResult<R> = (result: JsonObject, context: ReadContext) => R;

/** One result as read. */
export interface FoundResult<R> {
  /** Key of the record it belongs to; null for none. */
  readonly key: string | null;
  readonly isMatch: boolean;
  readonly value: R;
}

/** The answer to a lookup: one result for each record, in the service's order. */
export interface Answer<R> {
  readonly kind: "answer";
  /** Undefined for a result that is no object. */
  readonly results: readonly (FoundResult<R> | undefined)[];
  readonly apiRequestId: string | null;
  /** UTC, microseconds kept; null when absent or no timestamp. */
  readonly requestCompletedAt: string | null;
  readonly answeredAt: string;
  readonly drift: readonly Drift[];
  /** Size of the body after decompression. */
  readonly plainBytes: number;
}

/** A body that is no answer: not JSON, or JSON without a list of results. */
export interface Unreadable {
  readonly kind: "unreadable";
  readonly reason: "no_json" | "no_results" | "body_too_large";
}

/** Options of reading an answer. */
export interface ReadOptions<R> {
  /** Method and path, for drift. */
  readonly endpoint: string;
  /** Field of a result that names its record. */
  readonly keyField: string;
  readonly read: ReadResult<R>;
  /** Time of receipt, for a service that doesn't say when it completed the call. */
  readonly receivedAt: string;
  /** Bytes of a piece, for tests. */
  readonly pieceBytes?: number;
}

/** Pieces up to this size are parsed without a look at what they would take in memory. */
const SMALL_BYTES = 1024 * 1024;
/** Heap that one parsed piece may take. */
const MAX_HEAP_BYTES = 64 * 1024 * 1024;
/** Heap that each value, key or container takes at most, beside its text. */
const VALUE_BYTES = 40;
const STRUCTURE: ReadonlySet<number> = new Set(Array.from("[{,:", (c) => c.charCodeAt(0)));

/** A piece would take more memory than there is. */
class TooLargeError extends Error {}

/** Throws where a piece, parsed, could exhaust the heap: a few KB of gzip may hold millions of empty lists. */
function requireRoom(bytes: Buffer, start: number, end: number): void {
  if (end - start <= SMALL_BYTES) return;
  let values = 0;
  for (let i = start; i < end; i++) if (STRUCTURE.has(bytes[i] ?? 0)) values += 1;
  if (2 * (end - start) + VALUE_BYTES * values > MAX_HEAP_BYTES) throw new TooLargeError();
}

/** An id as the service may send it, number or text; null when it is neither or of unlikely length. */
export function readId(value: unknown): string | null {
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value.length <= 200 && /^[\x20-\x7e]+$/u.test(value) ? value : null;
}

function keyText(value: unknown): string | null {
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value !== "" ? value : null;
}

/** NUL, or any surrogate: an escaped pair can't be told from a lone one without parsing. */
export const CONTROL_ESCAPE = /\\u(?:0000|[dD][89a-fA-F])/u;

/** Some results in a row, and whether their text needs a closer look: only then it can hold NUL or lone surrogates. */
interface ResultList {
  readonly results: readonly unknown[];
  readonly hasControlText: boolean;
}

type Keys = Readonly<Record<string, unknown>>;

/** A piece of the body, parsed. Bytes that are no UTF-8 become U+FFFD: one bad character must not cost a paid answer. */
function parsePiece(
  bytes: Buffer,
  { start, end, before, after }: AnswerPiece,
): { value: unknown; hasControlText: boolean } {
  requireRoom(bytes, start, end);
  const isInner = before === "[" && after === "]";
  const piece = isInner ? bracketed(bytes, start, end) : bytes.toString("utf8", start, end);
  const text = isInner ? piece : `${before}${piece.startsWith("\uFEFF") ? piece.slice(1) : piece}${after}`;
  return { value: parseExact(text), hasControlText: piece.includes("\\u") && CONTROL_ESCAPE.test(piece) };
}

/** The text between two commas, in brackets instead: put around it afterwards, they would cost a copy of it. */
function bracketed(bytes: Buffer, start: number, end: number): string {
  const [before, after] = [bytes[start - 1] ?? 0, bytes[end] ?? 0];
  bytes.write("[", start - 1);
  bytes.write("]", end);
  const text = bytes.toString("utf8", start - 1, end + 1);
  bytes[start - 1] = before;
  bytes[end] = after;
  return text;
}

/** The keys of a parsed envelope, in their order; null when it is none. */
function keysOf(value: unknown): Keys | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : null;
}

/** An answer's parts: its keys but the results, and the results list by list. */
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

/** A body turned out to be cut at a wrong place. */
class MiscutError extends Error {}

/** True for errors that a wrong cut may have caused. */
function isMiscut(error: unknown): boolean {
  return error instanceof MiscutError || error instanceof SyntaxError || error instanceof TooLargeError;
}

function listIn(value: unknown, hasControlText: boolean): ResultList {
  if (!Array.isArray(value)) throw new MiscutError();
  return { results: value, hasControlText };
}

/**
 * A long body, parsed piece by piece, so that its results never lie in memory all at once. The envelope's keys may stand
 * before and after the results, so both ends are parsed first. Throws, here or later, where the cuts were wrong.
 */
function readPieces(bytes: Buffer, pieces: readonly AnswerPiece[]): Parts {
  const [first, ...others] = pieces;
  const last = others.pop();
  if (!first || !last) throw new MiscutError();
  const head = parsePiece(bytes, first);
  const tail = parsePiece(bytes, last);
  const headKeys = keysOf(head.value) ?? {};
  const tailKeys = keysOf(tail.value) ?? {};
  // A cut in another list than the results, or a second list of results behind this one.
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
    isMatch: result["is_match"] === true,
    value: options.read(isJsonObject(clean) ? clean : {}, context),
  };
}

/**
 * How far the service's clock may be off. Beyond, the time is an error: taken at its word, an answer of the year 9999 would
 * never be refreshed and never be replaced by a later one.
 */
const MAX_CLOCK_ERROR_MS = 1000 * 86_400_000;

/** The instant from which on an answer holds. */
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
  for (const list of parts.lists()) {
    for (const result of list.results) results.push(readOne(result, list.hasControlText, options, context));
    // Loaders wait for their next statement meanwhile.
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

/** The results of an answer that is read several times, each time piece by piece. */
export interface RepeatableResults {
  /** Every element of the list, cleaned of what no warehouse can store; what that changes is noted. */
  results(drift: DriftLog): Iterable<unknown>;
}

/** Opens an answer whose list of results may be long, or null where it is empty; null when it is no answer. */
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
      // A wrong cut shows where its piece is parsed: once through, before anything is believed.
      for (const list of parts.lists()) void list;
      return parts;
    } catch (error) {
      if (!isMiscut(error)) throw error;
    }
  }
  const whole = readWhole(bytes);
  if (!("kind" in whole)) return isEmpty(whole) && tellsError(whole.keys) ? null : whole;
  return whole.reason === "no_results" && statesNull(bytes) ? { lists: () => [] } : null;
}

/** An answer that gives null for its list, where it has nothing to list. */
function statesNull(bytes: Buffer): boolean {
  try {
    const keys = keysOf(JSON.parse(bytes.toString("utf8"))) ?? {};
    return keys["results"] === null && !tellsError(keys);
  } catch {
    return false;
  }
}

function isEmpty(parts: Parts): boolean {
  return [...parts.lists()].every(({ results }) => results.length === 0);
}

/** Reads the body of a 200 answer, long ones piece by piece; the outcome is the same as if parsed as a whole. */
export async function readAnswer<R>(bytes: Buffer, options: ReadOptions<R>): Promise<Answer<R> | Unreadable> {
  const pieces = cutAnswer(bytes, options.pieceBytes);
  if (pieces) {
    try {
      return await readParts(readPieces(bytes, pieces), bytes.length, options);
    } catch (error) {
      // The whole body tells a wrong cut from what is no JSON at all.
      if (!isMiscut(error)) throw error;
    }
  }
  const whole = readWhole(bytes);
  return "kind" in whole ? whole : await readParts(whole, bytes.length, options);
}
