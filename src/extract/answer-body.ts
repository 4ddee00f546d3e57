import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { appendBytes, type Body, chunksOf, freeBytes, isFilePart } from "../body.ts";
import { codeOf } from "../errors.ts";
import { parseBounded, parseText, TooDeepError, TooLargeError, withoutMark } from "./json.ts";
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
  /** Keys except a list of results. */
  readonly keys: Readonly<Record<string, unknown>>;
  /** Index of the first result; null if there is no list of results. */
  readonly first: number | null;
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
  // Characters of a string are read faster than bytes: V8 checks before each byte whether its buffer was freed.
  const text = chunk.toString("latin1");
  for (let i = 0; i < chunk.length; ) {
    i = s.isInResults ? scanResults(s, { chunk, text }, i, found) : scanEnvelope(s, text, i);
  }
  return found;
}

/** Parses the envelope after the last bytes; null if it is no JSON. Throws a TooLargeError if that takes too much memory. */
export function endScan(s: Scanner): ScannedEnvelope | null {
  if (s.isInResults) return null;
  const value = parseEnvelope(withoutMark(s.envelope.subarray(0, s.envelopeBytes)));
  if (value === undefined) return null;
  if (!isJsonObject(value)) return { keys: {}, first: null };
  const { results, ...keys } = value;
  if (!Array.isArray(results)) return { keys: value, first: null };
  // Of several lists, the last one counts.
  return { keys, first: s.results - results.length };
}

/** Parses the text around the results, with doubles if it is nested too deeply for exact numbers; undefined if it is no JSON. */
function parseEnvelope(bytes: Buffer): unknown {
  try {
    return parseBounded(bytes).value;
  } catch (error) {
    if (error instanceof TooDeepError || error instanceof SyntaxError)
      return parseText(bytes.toString("utf8"));
    throw error;
  }
}

/** Beginning of an object, up to its first key. */
const OBJECT_START = /\{[ \t\n\r]*"[^"\\]{1,100}"/u;

/** End of an object, before the next one. */
const OBJECT_END = /\}[ \t\n\r]*,[ \t\n\r]*$/u;

/** Bytes that are searched for {@link OBJECT_START} and {@link OBJECT_END}. */
const SEARCHED_BYTES = 200;

/** Bytes that are skipped where objects that begin so are no results. */
const SKIPPED_BYTES = 1024;

/** Longest piece: a longer one is no faster, and takes more memory. */
const MAX_PIECE_BYTES = 1024 * 1024;

interface CutBody {
  /** From the body's beginning to the bracket before its results. */
  readonly head: Buffer;
  /** Results, without the commas between the pieces. */
  readonly pieces: readonly Buffer[];
  /** The last results, and all that comes after them. */
  readonly tail: Buffer;
}

/**
 * Cuts a body every `pieceBytes` bytes, before an object that begins like the first result: much faster than a scan. Such an object
 * may be part of a result or of a text; if each piece is valid JSON between brackets, none is. Null for a short body, or another shape.
 */
export function cutBody(body: Buffer, pieceBytes: number): CutBody | null {
  const s = createScanner();
  const start = scanEnvelope(s, body.toString("latin1", 0, pieceBytes), 0);
  const [begin] = OBJECT_START.exec(body.toString("latin1", start, start + SEARCHED_BYTES)) ?? [];
  if (!s.isInResults || begin === undefined) return null;
  const pieces: Buffer[] = [];
  let at = start;
  let next = body.indexOf(begin, at + pieceBytes, "latin1");
  while (next >= 0) {
    const [end] = OBJECT_END.exec(body.toString("latin1", Math.max(at, next - SEARCHED_BYTES), next)) ?? [];
    if (end !== undefined) {
      if (next - at > MAX_PIECE_BYTES) return null;
      pieces.push(body.subarray(at, next - end.length + 1));
      at = next;
    }
    next = body.indexOf(begin, next + (end === undefined ? SKIPPED_BYTES : pieceBytes), "latin1");
  }
  return pieces.length === 0 ? null : { head: body.subarray(0, start), pieces, tail: body.subarray(at) };
}

function textOf({ envelope, envelopeBytes }: Scanner, from: number): string {
  return envelope.toString("utf8", from, envelopeBytes);
}

function append(s: Scanner, byte: number): void {
  if (s.envelopeBytes === MAX_ENVELOPE_BYTES) throw new TooLargeError();
  if (s.envelopeBytes === s.envelope.length) s.envelope = Buffer.concat([s.envelope], 2 * s.envelope.length);
  s.envelope[s.envelopeBytes++] = byte;
}

/** Reads the envelope from a position; returns where a list of results begins, or the end of the chunk. */
function scanEnvelope(s: Scanner, text: string, from: number): number {
  for (let i = from; i < text.length; i++) {
    const byte = text.charCodeAt(i);
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
  return text.length;
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
function scanResults(
  s: Scanner,
  { chunk, text }: { readonly chunk: Buffer; readonly text: string },
  from: number,
  found: ScannedResult[],
): number {
  let { innerDepth } = s;
  let start = from;
  for (let i = s.isInText ? skipText(s, text, from) : from; i < text.length; i++) {
    const byte = text.charCodeAt(i);
    if (byte === QUOTE) i = skipText(s, text, i + 1) - 1;
    else if (byte === OPEN_OBJECT || byte === OPEN_LIST) innerDepth += 1;
    else if (innerDepth > 0) {
      if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) innerDepth -= 1;
    } else if (byte === COMMA || byte === CLOSE_OBJECT || byte === CLOSE_LIST) {
      endResult(s, chunk.subarray(start, i), found);
      append(s, byte);
      start = i + 1;
      if (byte === COMMA) continue;
      Object.assign(s, { isInResults: false, depth: s.depth - 1, innerDepth: 0 });
      return start;
    }
  }
  addToResult(s, chunk.subarray(start));
  s.innerDepth = innerDepth;
  return text.length;
}

/** Skips a text from a position within it; returns the position after its end, or the end of the chunk. */
function skipText(s: Scanner, text: string, from: number): number {
  let i = s.isEscaped ? from + 1 : from;
  for (; i < text.length; i++) {
    const byte = text.charCodeAt(i);
    if (byte === BACKSLASH) i += 1;
    else if (byte === QUOTE) {
      s.isInText = s.isEscaped = false;
      return i + 1;
    }
  }
  s.isInText = true;
  // The escaped byte is in the next chunk.
  s.isEscaped = i > text.length;
  return text.length;
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

/** Unpacked bytes that are read at once. */
const UNPACKED_BYTES = 256 * 1024;

const isGzip = (encoding: string | null) => /^\s*(?:x-)?gzip\s*$/iu.test(encoding ?? "");
const isIdentity = (encoding: string | null) => /^\s*(?:identity)?\s*$/iu.test(encoding ?? "");

/** Returns the bytes that decompressing a body adds, according to its gzip trailer. */
export function statedSize(body: Buffer, contentEncoding: string | null): number {
  if (!isGzip(contentEncoding)) return 0;
  return body.length >= 18 ? body.readUInt32LE(body.length - 4) : 0;
}

/** Decompresses a body within bounds, off the main thread. */
export async function decompress(
  body: Body,
  contentEncoding: string | null,
  maxBytes: number = MAX_ANSWER_BYTES,
): Promise<PlainBody> {
  if (isFilePart(body)) return tooLarge;
  if (isIdentity(contentEncoding)) return body.length > maxBytes ? tooLarge : { kind: "plain", bytes: body };
  // One buffer of the final size leaves no copies; the stated one may be wrong.
  let bytes: Buffer = Buffer.allocUnsafeSlow(Math.min(statedSize(body, contentEncoding), maxBytes));
  let length = 0;
  try {
    for await (const chunk of plainChunks(body, contentEncoding)) {
      if (length + chunk.length > maxBytes) {
        freeBytes(bytes);
        return tooLarge;
      }
      bytes = appendBytes(bytes, length, chunk);
      length += chunk.length;
    }
    return { kind: "plain", bytes: bytes.subarray(0, length) };
  } catch (error) {
    if (error instanceof UnreadableBodyError) return { kind: "unreadable", reason: error.reason };
    throw error;
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
  for await (const chunk of unpacked(body, contentEncoding)) {
    bytes += chunk.length;
    if (bytes > MAX_LARGE_BYTES) throw new UnreadableBodyError({ reason: "body_too_large" });
    yield chunk;
  }
}

async function* unpacked(body: Body, contentEncoding: string | null): AsyncGenerator<Buffer> {
  if (isIdentity(contentEncoding)) {
    yield* chunksOf(body);
    return;
  }
  if (!isGzip(contentEncoding)) throw new UnreadableBodyError({ reason: "unknown_encoding" });
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
