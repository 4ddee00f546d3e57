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

/** A text with numbers that a double can't represent is nested too deeply to keep them. */
export class TooDeepError extends SyntaxError {
  override readonly name = "TooDeepError";
}

const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

function isDeep(text: string): boolean {
  let level = 0;
  let isInText = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) isInText = !isInText;
    else if (isInText) i += code === BACKSLASH ? 1 : 0;
    else if (code === OPEN_LIST || code === OPEN_OBJECT) {
      level += 1;
      if (level > MAX_EXACT_LEVELS) return true;
    } else if (code === CLOSE_LIST || code === CLOSE_OBJECT) level -= 1;
  }
  return false;
}

/**
 * Parses JSON; a number that a double can't represent becomes a `JSON.rawJSON` of its source text. Throws a TooDeepError for a text
 * with such numbers that is nested more than {@link MAX_EXACT_LEVELS} levels deep.
 */
export function parseExact(text: string): unknown {
  if (!hasInexactNumber(text)) return JSON.parse(text);
  if (isDeep(text)) throw new TooDeepError("The JSON is nested too deeply for numbers of many digits.");
  return JSON.parse(text, (_key, value, { source }) =>
    typeof value === "number" && source !== undefined && !isExact(source) ? JSON.rawJSON(source) : value,
  );
}
