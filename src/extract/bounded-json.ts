import { parseExact, TooDeepError } from "./exact-json.ts";
import { isJsonObject, type JsonObject } from "../schemas/flatten.ts";

/** Values up to this size are parsed as they are: they take at most 30 MB of heap. */
export const SMALL_BYTES = 1024 * 1024;
/** Fields of an object of a larger value; real objects have some hundred. */
const MAX_FIELDS = 1000;
/** Levels of nesting of a larger value. */
const MAX_LEVELS = 1000;
/** Name of the text that holds further fields. */
const REST = "_rest";

/** Maximum heap of a parsed value. */
const MAX_HEAP_BYTES = 64 * 1024 * 1024;
/** Maximum heap of a value, key or container, besides its text. */
const VALUE_BYTES = 40;
/** Heap of a name that no other object has, besides its text. */
const NAME_BYTES = 200;

const [QUOTE, BACKSLASH, COLON, COMMA] = [0x22, 0x5c, 0x3a, 0x2c];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/** A value or its rows would exceed the available memory. */
export class TooLargeError extends Error {
  override readonly name = "TooLargeError";
}

/** NUL or any surrogate: lone surrogates can't be distinguished from pairs without parsing. */
export const CONTROL_ESCAPE = /\\u(?:0000|[dD][89a-fA-F])/u;

/** A value, with a flag for text that may contain NUL or lone surrogates. */
export interface Parsed {
  readonly value: unknown;
  readonly hasControlText: boolean;
}

/**
 * Parses one JSON value, such as a result, within bounded memory. Of a value above {@link SMALL_BYTES}, and of one with exact numbers
 * that is nested too deeply for them, fields beyond the first 1,000 of an object and levels beyond 1,000 become text. Depends on
 * the value's own bytes only. Throws a TooLargeError for a value that takes too much memory all the same, a SyntaxError for no JSON.
 */
export function parseBounded(bytes: Buffer): Parsed {
  if (bytes.length <= SMALL_BYTES) {
    const text = bytes.toString("utf8");
    try {
      return parsedOf(text);
    } catch (error) {
      if (!(error instanceof TooDeepError)) throw error;
      // Without exact numbers, any depth can be parsed: to see that what becomes text is JSON.
      JSON.parse(text);
    }
  }
  return parsedOf(foldWide(bytes) ?? bytes.toString("utf8"));
}

function parsedOf(text: string): Parsed {
  return { value: parseExact(text), hasControlText: text.includes("\\u") && CONTROL_ESCAPE.test(text) };
}

/** Parses a text; undefined if it is no JSON. */
export function parseText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const BYTE_ORDER_MARK = Buffer.from("\uFEFF", "utf8");

/** Returns a body without a byte order mark. */
export function withoutMark(body: Buffer): Buffer {
  const { length } = BYTE_ORDER_MARK;
  return body.subarray(0, length).equals(BYTE_ORDER_MARK) ? body.subarray(length) : body;
}

/** Position after the text that starts at `at`. */
function afterText(bytes: Buffer, at: number): number {
  for (let i = at + 1; i < bytes.length; i++) {
    const byte = bytes[i];
    if (byte === BACKSLASH) i += 1;
    else if (byte === QUOTE) return i + 1;
  }
  return bytes.length;
}

/** Hash of a name (FNV-1a): two names with the same one count once. */
function hashOf(bytes: Buffer, start: number, end: number): number {
  let hash = 0x811c9dc5;
  for (let i = start; i < end; i++) hash = Math.imul(hash ^ (bytes[i] ?? 0), 0x01000193);
  return hash;
}

/** Returns a value's text with what is too wide or too deep as text; null if nothing is. Throws a TooLargeError. */
function foldWide(bytes: Buffer): string | null {
  /** Fields so far of each open object; NaN for a list. */
  const fields: number[] = [];
  const names = new Set<number>();
  const parts: string[] = [];
  let copied = 0;
  let level = 0;
  let values = 0;
  let textAt = 0;
  let afterLastText = 0;
  let fold: { readonly from: number; readonly level: number; readonly isOfFields: boolean } | null = null;
  const begin = (from: number, isOfFields: boolean) => {
    parts.push(bytes.toString("utf8", copied, from));
    return { from, level, isOfFields };
  };
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (byte === QUOTE) {
      textAt = i;
      afterLastText = afterText(bytes, i);
      i = afterLastText - 1;
    } else if (byte === OPEN_OBJECT || byte === OPEN_LIST) {
      level += 1;
      if (fold) continue;
      values += 1;
      if (level > MAX_LEVELS) fold = begin(i, false);
      else fields[level] = byte === OPEN_OBJECT ? 1 : Number.NaN;
    } else if (byte === COMMA && !fold) {
      values += 1;
      const count = (fields[level] ?? Number.NaN) + 1;
      fields[level] = count;
      if (count > MAX_FIELDS) fold = begin(i + 1, true);
    } else if (byte === COLON && !fold) {
      values += 1;
      names.add(hashOf(bytes, textAt, afterLastText));
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) {
      if (fold?.level === level) {
        copied = fold.isOfFields ? i : i + 1;
        const text = JSON.stringify(bytes.toString("utf8", fold.from, copied));
        parts.push(fold.isOfFields ? `${JSON.stringify(REST)}:${text}` : text);
        fold = null;
      }
      level -= 1;
    }
    if (values > MAX_HEAP_BYTES / VALUE_BYTES) throw new TooLargeError();
  }
  if (2 * bytes.length + VALUE_BYTES * values + NAME_BYTES * names.size > MAX_HEAP_BYTES)
    throw new TooLargeError();
  // Something that never ends is no JSON, which the parser reports.
  if (parts.length === 0 || fold) return null;
  parts.push(bytes.toString("utf8", copied));
  return parts.join("");
}

/**
 * Scalar fields of an object by its first bytes, such as its ID; without those that come after a value that is cut. Takes little
 * memory, whatever the rest is.
 */
export function scalarsOf(bytes: Buffer): JsonObject {
  const parts: string[] = [];
  let level = 0;
  let start = 1;
  let isScalar = true;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (byte === QUOTE) i = afterText(bytes, i) - 1;
    else if (level === 1 && (byte === COMMA || byte === CLOSE_OBJECT)) {
      if (isScalar && parts.length < MAX_FIELDS) parts.push(bytes.toString("utf8", start, i));
      start = i + 1;
      isScalar = true;
      if (byte === CLOSE_OBJECT) break;
    } else if (byte === OPEN_OBJECT || byte === OPEN_LIST) {
      level += 1;
      if (level > 1) isScalar = false;
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) level -= 1;
  }
  const value = parseText(`{${parts.join(",")}}`);
  return isJsonObject(value) ? value : {};
}
