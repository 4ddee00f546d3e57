import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { createGunzip, gunzip } from "node:zlib";
import { type Body, chunksOf, isFilePart } from "../body.ts";
import { codeOf } from "../errors.ts";
import { parseBounded, parseText, TooLargeError, withoutMark } from "./json.ts";
import { isJsonObject } from "../schemas/flatten.ts";

/** One element of an answer's list of results, as bytes. */
export interface ScannedResult {
  /** Position among all elements that were found. */
  readonly index: number;
  /** Its JSON text; only the beginning if it is cut. */
  readonly bytes: Buffer;
  /** True if it is longer than {@link MAX_RESULT_BYTES}. */
  readonly isCut: boolean;
}

/** An answer without its results. */
interface ScannedEnvelope {
  readonly kind: "envelope";
  /** Keys except `results`. */
  readonly keys: Readonly<Record<string, unknown>>;
  /** Index of the first result, and their number. */
  readonly first: number;
  readonly count: number;
}

/** State of a scan. Functions below change it. */
export interface Scanner {
  /** Text around the results, with the index of each result in its place. */
  envelope: Buffer;
  envelopeBytes: number;
  /** Open objects and lists of the envelope. */
  depth: number;
  /** Start of the envelope's last text. */
  textAt: number;
  /** True between the brackets of a list of results. */
  isInResults: boolean;
  /** Open objects and lists of the current result. */
  innerDepth: number;
  isInText: boolean;
  isEscaped: boolean;
  /** Bytes of the current result so far, from its first one on; the list is empty before it. */
  parts: Buffer[];
  resultBytes: number;
  /** Results found so far, and bytes of the answer. */
  results: number;
  bytes: number;
}

/** Longest result that is kept whole. */
const MAX_RESULT_BYTES = 32 * 1024 * 1024;

/** Bytes that are kept of a longer one. */
const CUT_BYTES = 64 * 1024;

/** Longest text around the results. */
const MAX_ENVELOPE_BYTES = 8 * 1024 * 1024;

/** Longest spelling of the key `results`. */
const MAX_KEY_BYTES = 60;

const [SPACE, TAB, NEWLINE, RETURN] = [0x20, 0x09, 0x0a, 0x0d];

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];

const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

const isBlank = (byte: number | undefined) =>
  byte === SPACE || byte === NEWLINE || byte === RETURN || byte === TAB;

/** The text around the results is longer than in any answer. */
class LongEnvelopeError extends TooLargeError {}

export function createScanner(): Scanner {
  return {
    envelope: Buffer.alloc(1024),
    envelopeBytes: 0,
    depth: 0,
    textAt: 0,
    isInResults: false,
    innerDepth: 0,
    isInText: false,
    isEscaped: false,
    parts: [],
    resultBytes: 0,
    results: 0,
    bytes: 0,
  };
}

/**
 * Reads the next bytes of an answer; returns the results that end in them. Finds the same results whatever the chunks are. An
 * answer is valid JSON if and only if its envelope and each of its results are.
 */
export function scan(s: Scanner, chunk: Buffer): readonly ScannedResult[] {
  const found: ScannedResult[] = [];
  s.bytes += chunk.length;
  for (let i = 0; i < chunk.length; ) {
    i = s.isInResults ? scanResults(s, chunk, i, found) : scanEnvelope(s, chunk, i);
  }
  return found;
}

/** Parses the envelope after the last bytes. Throws a TooLargeError if that takes too much memory. */
export function endScan(s: Scanner): ScannedEnvelope | "no_json" | "no_results" {
  if (s.isInResults) return "no_json";
  try {
    const { value } = parseBounded(withoutMark(s.envelope.subarray(0, s.envelopeBytes)));
    if (!isJsonObject(value)) return "no_results";
    const { results, ...keys } = value;
    if (!Array.isArray(results)) return "no_results";
    // Of several lists, the last one counts.
    return { kind: "envelope", keys, first: s.results - results.length, count: results.length };
  } catch (error) {
    if (error instanceof SyntaxError) return "no_json";
    throw error;
  }
}

function textOf({ envelope, envelopeBytes }: Scanner, from: number): string {
  return envelope.toString("utf8", from, envelopeBytes);
}

function append(s: Scanner, byte: number): void {
  if (s.envelopeBytes === MAX_ENVELOPE_BYTES) throw new LongEnvelopeError();
  if (s.envelopeBytes === s.envelope.length) s.envelope = Buffer.concat([s.envelope], 2 * s.envelope.length);
  s.envelope[s.envelopeBytes++] = byte;
}

/** Reads the envelope from a position; returns where a list of results begins, or the end of the chunk. */
function scanEnvelope(s: Scanner, chunk: Buffer, from: number): number {
  for (let i = from; i < chunk.length; i++) {
    const byte = chunk[i] ?? 0;
    if (s.isInText) passText(s, byte);
    else if (isBlank(byte)) {
      // One blank is as good as many.
      if (s.envelope[s.envelopeBytes - 1] !== SPACE || s.envelopeBytes === 0) append(s, SPACE);
      continue;
    } else if (byte === QUOTE) {
      s.isInText = true;
      s.textAt = s.envelopeBytes;
    } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      s.isInResults = byte === OPEN_LIST && s.depth === 1 && isAfterResultsKey(s);
      s.depth += 1;
    } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) s.depth -= 1;
    append(s, byte);
    if (s.isInResults) return i + 1;
  }
  return chunk.length;
}

function passText(s: Scanner, byte: number): void {
  if (s.isEscaped) s.isEscaped = false;
  else if (byte === BACKSLASH) s.isEscaped = true;
  else if (byte === QUOTE) s.isInText = false;
}

/** True if the envelope ends with the key `results` in any spelling, and a colon. */
function isAfterResultsKey(s: Scanner): boolean {
  if (s.envelopeBytes - s.textAt > MAX_KEY_BYTES + 4) return false;
  const [, key] = /^("[^]*")\s*:\s*$/u.exec(textOf(s, s.textAt)) ?? [];
  return key !== undefined && parseText(key) === "results";
}

/** Reads results from a position; returns where their list ends, or the end of the chunk. */
function scanResults(s: Scanner, chunk: Buffer, from: number, found: ScannedResult[]): number {
  let { innerDepth, isInText, isEscaped } = s;
  let start = from;
  let i = from;
  while (i < chunk.length && s.isInResults) {
    const byte = chunk[i++];
    if (isInText) {
      if (isEscaped) isEscaped = false;
      else if (byte === BACKSLASH) isEscaped = true;
      else if (byte === QUOTE) isInText = false;
    } else if (byte === QUOTE) isInText = true;
    else if (byte === OPEN_OBJECT || byte === OPEN_LIST) innerDepth += 1;
    else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) {
      if (innerDepth > 0) innerDepth -= 1;
      else {
        endResult(s, chunk.subarray(start, i - 1), found);
        append(s, byte);
        s.isInResults = false;
        s.depth -= 1;
      }
    } else if (byte === COMMA && innerDepth === 0) {
      endResult(s, chunk.subarray(start, i - 1), found);
      append(s, byte);
      start = i;
    }
  }
  if (s.isInResults) addToResult(s, chunk.subarray(start));
  s.innerDepth = innerDepth;
  s.isInText = isInText;
  s.isEscaped = isEscaped;
  return i;
}

/** Adds bytes to the current result, without blanks before it. */
function addToResult(s: Scanner, bytes: Buffer): void {
  let start = 0;
  if (s.parts.length === 0) while (isBlank(bytes[start])) start += 1;
  if (start === bytes.length) return;
  const wasWhole = s.resultBytes <= MAX_RESULT_BYTES;
  s.resultBytes += bytes.length - start;
  if (wasWhole) s.parts.push(bytes.subarray(start));
  if (wasWhole && s.resultBytes > MAX_RESULT_BYTES) s.parts = [Buffer.concat(s.parts, CUT_BYTES)];
}

function endResult(s: Scanner, lastBytes: Buffer, found: ScannedResult[]): void {
  addToResult(s, lastBytes);
  const [first, ...others] = s.parts;
  if (!first) return;
  const bytes = others.length === 0 ? first : Buffer.concat(s.parts);
  let end = bytes.length;
  while (isBlank(bytes[end - 1])) end -= 1;
  const index = s.results;
  found.push({ index, bytes: bytes.subarray(0, end), isCut: s.resultBytes > MAX_RESULT_BYTES });
  for (const digit of String(index)) append(s, digit.charCodeAt(0));
  s.results += 1;
  s.parts = [];
  s.resultBytes = 0;
}

/** Piece of an answer's body; valid JSON when enclosed in `before` and `after`. */
export interface AnswerPiece {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
  readonly before: string;
  readonly after: string;
}

/**
 * Approximate piece size. A parsed piece takes about three times as much memory and is freed before the next one. Larger
 * texts (128 KB, at up to two bytes per character) would be allocated in the large-object space.
 */
const PIECE_BYTES = 48 * 1024;

/** The list of results must start within this many bytes. */
const MAX_HEAD_BYTES = 4096;

/** Replaces `results` in the last piece with a name that no answer has, to detect a second `results` after it. */
export const REST_KEY = "\u0000rest";

const FIRST_RESULT = /"results"\s*:\s*\[\s*\{\s*("[^"\\]{1,100}")/;

/**
 * Splits the list of results by its bytes only; null if it is short or has another shape. Parsing detects a wrong split:
 * a split inside a string or a nested value leaves something unclosed.
 */
export function cutAnswer(bytes: Buffer, pieceBytes = PIECE_BYTES): readonly AnswerPiece[] | null {
  if (bytes.length < 2 * pieceBytes) return null;
  const firstKey = FIRST_RESULT.exec(bytes.toString("latin1", 0, MAX_HEAD_BYTES))?.[1];
  if (firstKey === undefined) return null;
  const pieces: AnswerPiece[] = [];
  let start = 0;
  let from = pieceBytes;
  while (from < bytes.length - pieceBytes) {
    const key = bytes.indexOf(firstKey, from, "latin1");
    if (key < 0) break;
    const comma = commaBefore(bytes, key);
    const isCut = comma >= start;
    from = isCut ? Math.max(key + 1, comma + pieceBytes) : key + 1;
    if (!isCut) continue;
    const isFirst = pieces.length === 0;
    pieces.push({ start, end: comma, before: isFirst ? "" : "[", after: isFirst ? "]}" : "]" });
    start = comma + 1;
  }
  if (pieces.length === 0) return null;
  pieces.push({ start, end: bytes.length, before: `{${JSON.stringify(REST_KEY)}:[`, after: "" });
  return pieces;
}

/** Position of the comma before the object whose first key is at `at`; -1 if there is none. */
function commaBefore(bytes: Buffer, at: number): number {
  const open = lastBefore(bytes, at);
  if (open < 0 || bytes[open] !== OPEN_OBJECT) return -1;
  const comma = lastBefore(bytes, open);
  if (comma < 0 || bytes[comma] !== COMMA) return -1;
  return bytes[lastBefore(bytes, comma)] === CLOSE_OBJECT ? comma : -1;
}

/** Position of the last byte before `at` that is not whitespace; -1 for none. */
function lastBefore(bytes: Buffer, at: number): number {
  let i = at - 1;
  while (i >= 0 && isBlank(bytes[i])) i -= 1;
  return i;
}

/** Largest answer, as received and after decompression. A larger one is lost, and may be sent for again. */
export const MAX_LARGE_BYTES = 1024 * 1024 * 1024;

/** Largest answer, after decompression, that is in memory as a whole; a larger one is read result by result, twice. */
export const MAX_ANSWER_BYTES = 32 * 1024 * 1024;

/** Largest body of an error after decompression: a larger one is no error of the service. */
export const MAX_ERROR_BYTES = 512 * 1024;

type PlainBody =
  | { readonly kind: "plain"; readonly bytes: Buffer }
  | { readonly kind: "unreadable"; readonly reason: string };

const tooLarge = { kind: "unreadable", reason: "body_too_large" } as const;

const gunzipAsync = promisify(gunzip);

/** Maximum output chunk, because the size in a gzip trailer may be wrong. */
const MAX_CHUNK_BYTES = 8 * 1024 * 1024;

/** Unpacked bytes that are read at once. */
const UNPACKED_BYTES = 256 * 1024;

function isGzip(contentEncoding: string | null): boolean {
  return ["gzip", "x-gzip"].includes(encodingOf(contentEncoding));
}

function encodingOf(contentEncoding: string | null): string {
  return contentEncoding?.trim().toLowerCase() ?? "identity";
}

/** Returns the bytes that decompressing a body adds, according to its gzip trailer. */
export function statedSize(body: Buffer, contentEncoding: string | null): number {
  if (!isGzip(contentEncoding)) return 0;
  return body.length >= 18 ? body.readUInt32LE(body.length - 4) : 0;
}

/** Smallest compressed body that could be too large: 1 to 1032 is the most that gzip compresses. */
const LEAST_BOMB_BYTES = 16 * 1024;

/** Unpacks without keeping anything: a bomb would otherwise leave its whole bound as garbage each time. */
async function unpacksBeyond(body: Buffer, maxBytes: number): Promise<boolean> {
  if (body.length < LEAST_BOMB_BYTES) return false;
  const unpacking = createGunzip();
  unpacking.end(body);
  let bytes = 0;
  try {
    for await (const piece of unpacking as AsyncIterable<Buffer>) {
      bytes += piece.length;
      if (bytes > maxBytes) return true;
    }
    return false;
  } catch {
    // Broken, which shows again when it is unpacked to be read.
    return false;
  }
}

/** Decompresses a body within bounds, off the main thread. */
export async function decompress(
  body: Body,
  contentEncoding: string | null,
  maxBytes: number = MAX_ANSWER_BYTES,
): Promise<PlainBody> {
  if (isFilePart(body)) return tooLarge;
  const encoding = encodingOf(contentEncoding);
  if (encoding === "identity" || encoding === "") {
    return body.length > maxBytes ? tooLarge : { kind: "plain", bytes: body };
  }
  if (!isGzip(encoding)) return { kind: "unreadable", reason: "unknown_encoding" };
  // With several members, only the last one's size is stated.
  const isSuspect = maxBytes >= MAX_ANSWER_BYTES || statedSize(body, encoding) > maxBytes;
  if (isSuspect && (await unpacksBeyond(body, maxBytes))) return tooLarge;
  try {
    // One chunk of the final size halves the work.
    const chunkSize = Math.min(Math.max(statedSize(body, encoding) + 1, 16 * 1024), MAX_CHUNK_BYTES);
    return { kind: "plain", bytes: await gunzipAsync(body, { maxOutputLength: maxBytes, chunkSize }) };
  } catch (error) {
    return error instanceof RangeError ? tooLarge : { kind: "unreadable", reason: "broken_compression" };
  }
}

/** A body can't be unpacked. */
export class UnreadableBodyError extends Error {
  override readonly name = "UnreadableBodyError";
  readonly reason: string;

  constructor({ reason }: { readonly reason: string }) {
    super(`The body can't be read: ${reason}.`);
    this.reason = reason;
  }
}

/** Decompresses a body of any size chunk by chunk. Throws an UnreadableBodyError. */
export async function* plainChunks(body: Body, contentEncoding: string | null): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of unpacked(body, encodingOf(contentEncoding))) {
    bytes += chunk.length;
    if (bytes > MAX_LARGE_BYTES) throw new UnreadableBodyError({ reason: "body_too_large" });
    yield chunk;
  }
}

async function* unpacked(body: Body, encoding: string): AsyncGenerator<Buffer> {
  if (encoding === "identity" || encoding === "") {
    yield* chunksOf(body);
    return;
  }
  if (!isGzip(encoding)) throw new UnreadableBodyError({ reason: "unknown_encoding" });
  const unpacking = createGunzip({ chunkSize: UNPACKED_BYTES });
  // Its error is thrown by the loop, too.
  pipeline(chunksOf(body), unpacking).catch(() => {});
  try {
    yield* unpacking as AsyncIterable<Buffer>;
  } catch (error) {
    if (codeOf(error)?.startsWith("Z_") === true)
      throw new UnreadableBodyError({ reason: "broken_compression" });
    throw error;
  }
}
