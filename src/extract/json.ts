import { MAX_JSON_DEPTH } from "../schemas/convert.ts";
import { isJsonObject, type JsonObject } from "../schemas/flatten.ts";

declare global {
  interface JSON {
    /** Like `parse`; the reviver also receives the source text of primitive values (ES2025). */
    parse(
      text: string,
      reviver: (this: unknown, key: string, value: unknown, context: { readonly source?: string }) => unknown,
    ): unknown;
  }
}

/** Numbers that a double may not represent: 16 digits or points, or an exponent of three digits. */
const LONG_NUMBER = /[[:,\s](-?(?:\d[\d.]{15,}(?:[eE][+-]?\d+)?|\d[\d.]*[eE][+-]?\d{3,}))/g;
/** Digits or points of the shortest {@link LONG_NUMBER} without a long exponent. */
const LONG = 16;
/** End of a number, or of unquoted text, with an exponent of three digits. */
const LONG_EXPONENT = /[eE][+-]?\d{3,}[,\]}\s]/;
/** Significant digits that every double preserves. */
const DOUBLE_DIGITS = 15;

/** True if a number is unchanged after conversion to a double and back. */
function isExact(source: string): boolean {
  const value = Number(source);
  if (String(value) === source) return true;
  const digits = source
    .replace(/[eE].*$/u, "")
    .replaceAll(/[-.]/gu, "")
    .replace(/^0+/u, "");
  if (digits === "") return true;
  // Beyond these magnitudes, doubles overflow or lose precision.
  const magnitude = Math.abs(value);
  return digits.length <= DOUBLE_DIGITS && magnitude > 1e-300 && magnitude < 1e300;
}

const isDigitOrPoint = (code: number) => (code >= 0x30 && code <= 0x39) || code === 0x2e;

/** True if {@link LONG} digits or points follow one another: any such run has one at a multiple of that position. */
function hasLongRun(text: string): boolean {
  for (let i = LONG - 1; i < text.length; i += LONG) {
    if (!isDigitOrPoint(text.charCodeAt(i))) continue;
    let start = i;
    while (start > 0 && isDigitOrPoint(text.charCodeAt(start - 1))) start -= 1;
    let end = i + 1;
    while (end < text.length && isDigitOrPoint(text.charCodeAt(end))) end += 1;
    if (end - start >= LONG) return true;
  }
  return false;
}

function hasInexactNumber(text: string): boolean {
  if (!hasLongRun(text) && !LONG_EXPONENT.test(text)) return false;
  // One shared expression: V8 would not compile a new one per text (as matchAll makes) to machine code.
  LONG_NUMBER.lastIndex = 0;
  for (let match = LONG_NUMBER.exec(text); match !== null; match = LONG_NUMBER.exec(text)) {
    if (!isExact(match[1] ?? "")) return true;
  }
  return false;
}

/** Deepest nesting of a text with inexact numbers: the reviver that keeps them recurses, unlike the parser itself. */
const MAX_EXACT_LEVELS = 1000;

const [QUOTE, BACKSLASH, COLON, COMMA] = [0x22, 0x5c, 0x3a, 0x2c];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/** A value or its rows would exceed the available memory. */
export class TooLargeError extends Error {
  override readonly name: string = "TooLargeError";
}

/** A text with numbers that a double can't represent is nested too deeply to keep them. */
export class TooDeepError extends TooLargeError {
  override readonly name = "TooDeepError";
}

function isDeep(text: string, maxLevels: number): boolean {
  let level = 0;
  let isInText = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) isInText = !isInText;
    else if (isInText) i += code === BACKSLASH ? 1 : 0;
    else if (code === OPEN_LIST || code === OPEN_OBJECT) {
      level += 1;
      if (level > maxLevels) return true;
    } else if (code === CLOSE_LIST || code === CLOSE_OBJECT) level -= 1;
  }
  return false;
}

/** Parses JSON; a number that a double can't represent becomes a `JSON.rawJSON` of its source text. Throws a TooDeepError. */
export function parseExact(text: string): unknown {
  if (!hasInexactNumber(text)) return JSON.parse(text);
  if (isDeep(text, MAX_EXACT_LEVELS)) {
    // No JSON is reported as such.
    JSON.parse(text);
    throw new TooDeepError("The JSON is nested too deeply for numbers of many digits.");
  }
  return JSON.parse(text, (_key, value, { source }) =>
    typeof value === "number" && source !== undefined && !isExact(source) ? JSON.rawJSON(source) : value,
  );
}

/** Values up to this size take at most 30 MB of heap. */
const SMALL_BYTES = 1024 * 1024;
/** Maximum heap of a parsed value. */
const MAX_HEAP_BYTES = 64 * 1024 * 1024;
/** Maximum heap of a value or container, besides its text. */
const VALUE_BYTES = 40;
/** Maximum heap of a field whose name no other object has, besides its text. */
const FIELD_BYTES = 240;

/** Most heap that the parsed value of a text takes. */
function heapOf(bytes: Buffer): number {
  let heap = 2 * bytes.length;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (byte === QUOTE) i = afterText(bytes, i) - 1;
    else if (byte === COLON) heap += FIELD_BYTES;
    else if (byte === COMMA || byte === OPEN_OBJECT || byte === OPEN_LIST) heap += VALUE_BYTES;
  }
  return heap;
}

/** NUL or any surrogate: lone surrogates can't be distinguished from pairs without parsing. */
const CONTROL_ESCAPE = /\\u(?:0000|[dD][89a-fA-F])/u;

/** A value, with a flag for text that may contain NUL or lone surrogates. */
export interface Parsed {
  readonly value: unknown;
  readonly hasControlText: boolean;
}

/**
 * Parses one JSON value, such as a result, within bounded memory. Throws a TooLargeError for a value that takes too much, a
 * SyntaxError for no JSON.
 */
export function parseBounded(bytes: Buffer): Parsed {
  return parseFlagged(boundedText(bytes));
}

/**
 * Like {@link parseBounded}, for the elements of a list by the bytes between its brackets. Throws a TooLargeError also if one of them may
 * have to be cleaned and one is deep: cleaning turns deep values into text.
 */
export function parseElements(bytes: Buffer): readonly Parsed[] {
  const text = boundedText(bytes);
  const { value: elements, hasControlText } = parseFlagged(`[${text}]`);
  if (hasControlText && isDeep(text, MAX_JSON_DEPTH)) throw new TooLargeError();
  return Array.isArray(elements) ? elements.map((value: unknown) => ({ value, hasControlText })) : [];
}

/** Text of bytes, unless its value would take too much memory. Invalid UTF-8 becomes U+FFFD, so that one bad character doesn't lose a paid answer. */
function boundedText(bytes: Buffer): string {
  if (bytes.length > SMALL_BYTES && heapOf(bytes) > MAX_HEAP_BYTES) throw new TooLargeError();
  return bytes.toString("utf8");
}

function parseFlagged(text: string): Parsed {
  return { value: parseExact(text), hasControlText: text.includes("\\u") && CONTROL_ESCAPE.test(text) };
}

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

/** Fields that are read of an object by its first bytes. */
const MAX_FIELDS = 1000;

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
