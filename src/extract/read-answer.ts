import { setImmediate as letOthersRun } from "node:timers/promises";
import { cleanText, type Drift, DriftLog, instantText } from "../schemas/convert.ts";
import { hasError, readId } from "../schemas/error-body.ts";
import { isJsonObject, type JsonObject } from "../schemas/flatten.ts";
import {
  type AnswerPiece,
  createScanner,
  cutAnswer,
  endScan,
  REST_KEY,
  scan,
  type ScannedResult,
  type Scanner,
} from "./answer-body.ts";
import {
  CONTROL_ESCAPE,
  parseBounded,
  type Parsed,
  parseExact,
  scalarsOf,
  SMALL_BYTES,
  TooLargeError,
} from "./json.ts";

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

/**
 * Reads the body of a 200 response. The result is the same whatever the ways it is read in; that of each element depends on its own
 * bytes only.
 */
export async function readAnswer<R>(bytes: Buffer, options: ReadOptions<R>): Promise<Answer<R> | Unreadable> {
  for (const open of waysToRead(bytes, options.pieceBytes)) {
    try {
      const parts = open();
      return "kind" in parts ? parts : await readParts(parts, bytes.length, options);
    } catch (error) {
      if (!isMiscut(error)) throw error;
    }
  }
  return { kind: "unreadable", reason: "no_json" };
}

/** Ways to read a body, the fastest first; one that fails leaves it to the next. The last one also finds what isn't JSON. */
function waysToRead(bytes: Buffer, pieceBytes?: number): readonly (() => Parts | Unreadable)[] {
  const pieces = cutAnswer(bytes, pieceBytes);
  return [
    ...(pieces ? [() => readPieces(bytes, pieces)] : []),
    ...(bytes.length <= SMALL_BYTES ? [() => readWhole(bytes)] : []),
    () => readScanned(bytes),
  ];
}

async function readParts<R>(parts: Parts, plainBytes: number, options: ReadOptions<R>): Promise<Answer<R>> {
  const envelope = envelopeOf(parts.keys, options.receivedAt);
  const drift = new DriftLog(options.endpoint);
  const context = { drift, answeredAt: envelope.answeredAt };
  const results: (FoundResult<R> | undefined)[] = [];
  const { maxResults = Number.POSITIVE_INFINITY } = options;
  for (const list of parts.lists()) {
    if (results.length + list.results.length > maxResults) throw new TooLargeError();
    for (const result of list.results)
      results.push(readOne({ value: result, hasControlText: list.hasControlText }, options, context));
    // Lets loaders send their next statement.
    await letOthersRun();
  }
  return {
    kind: "answer",
    results,
    ...envelope,
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
  for (const open of waysToRead(bytes)) {
    try {
      const parts = open();
      if ("kind" in parts)
        return parts.reason === "no_results" && statesNull(bytes) ? { lists: () => [] } : null;
      // Parsing shows a wrong split, so parse everything once before using it.
      let results = 0;
      for (const list of parts.lists()) {
        if (list.results.some((result) => result instanceof LargeResult)) return null;
        results += list.results.length;
      }
      return results === 0 && hasError(parts.keys) ? null : parts;
    } catch (error) {
      if (error instanceof TooLargeError) return null;
      if (!isMiscut(error)) throw error;
    }
  }
  return null;
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

/** Text of an ID, which may be a number; null for others. */
export function keyText(value: unknown): string | null {
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value !== "" ? value : null;
}

/** Consecutive results, with a flag for text that may contain NUL or lone surrogates. */
interface ResultList {
  readonly results: readonly unknown[];
  readonly hasControlText: boolean;
}

type Keys = Readonly<Record<string, unknown>>;

/** Parses a small piece of the body. Invalid UTF-8 becomes U+FFFD, so that one bad character doesn't lose a paid answer. */
function parsePiece(bytes: Buffer, { start, end, before, after }: AnswerPiece): Parsed {
  if (end - start > SMALL_BYTES) throw new MiscutError();
  const isInner = before === "[" && after === "]";
  const piece = isInner ? bracketed(bytes, start, end) : bytes.toString("utf8", start, end);
  const hasMark = start === 0 && piece.startsWith("\uFEFF");
  const text = isInner ? piece : `${before}${hasMark ? piece.slice(1) : piece}${after}`;
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

/** A body was split at a wrong position, or a piece of it is not small. */
class MiscutError extends Error {}

/** True for errors that a wrong split can cause. */
function isMiscut(error: unknown): boolean {
  return error instanceof MiscutError || error instanceof SyntaxError;
}

/** Parses a small body at once. */
function readWhole(bytes: Buffer): Parts | Unreadable {
  const parsed = parsePiece(bytes, { start: 0, end: bytes.length, before: "", after: "" });
  const { results, ...keys } = keysOf(parsed.value) ?? {};
  if (!Array.isArray(results)) return { kind: "unreadable", reason: "no_results" };
  return { keys, lists: () => [{ results, hasControlText: parsed.hasControlText }] };
}

/** A result that takes too much memory, with what its first bytes show. */
class LargeResult {
  readonly scalars: JsonObject;

  constructor(scalars: JsonObject) {
    this.scalars = scalars;
  }
}

/** Results that are read before others may run, in the scan of a body. */
const LIST_BYTES = 48 * 1024;

/** Scans a body in memory, so that few results are in memory twice. */
function* scanBytes(scanner: Scanner, bytes: Buffer): Generator<ScannedResult> {
  for (let at = 0; at < bytes.length; at += LIST_BYTES)
    yield* scan(scanner, bytes.subarray(at, at + LIST_BYTES));
}

/** Reads a body result by result, each by its own bytes only. Throws, now or later, a SyntaxError if it is no JSON. */
function readScanned(bytes: Buffer): Parts | Unreadable {
  const scanner = createScanner();
  for (const _ of scanBytes(scanner, bytes));
  const envelope = endScan(scanner);
  if (typeof envelope === "string") return { kind: "unreadable", reason: envelope };
  return {
    keys: envelope.keys,
    *lists() {
      let list = { results: [] as unknown[], hasControlText: false };
      let listBytes = 0;
      for (const found of scanBytes(createScanner(), bytes)) {
        const { value, hasControlText } = parseResult(found);
        // Of several lists of results, the last one counts.
        if (found.index < envelope.first) continue;
        if (listBytes > LIST_BYTES || list.hasControlText !== hasControlText) {
          yield list;
          list = { results: [], hasControlText };
          listBytes = 0;
        }
        list.results.push(value);
        listBytes += found.bytes.length;
      }
      yield list;
    },
  };
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

/** Reads the keys of an answer besides its results. */
export function envelopeOf({ api_request_id, request_completed_at }: Keys, receivedAt: string) {
  const requestCompletedAt = instantText(request_completed_at);
  const answeredAt = ageOf(requestCompletedAt, receivedAt);
  return { apiRequestId: readId(api_request_id), requestCompletedAt, answeredAt };
}
