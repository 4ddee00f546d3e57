/** Fields of an object that are parsed: real ones have some hundred, and each distinct name takes about 200 bytes of heap. */
const MAX_FIELDS = 1000;
/** Levels of nesting that are parsed; beyond some thousand, exact numbers can't be. */
const MAX_LEVELS = 1000;
/** Name of the text that holds the fields beyond {@link MAX_FIELDS}. */
const REST = "_rest";

const [QUOTE, BACKSLASH, COLON, COMMA] = [0x22, 0x5c, 0x3a, 0x2c];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/** A part of a JSON text, with what exceeds the limits of its objects as texts. */
export interface FoldedJson {
  /** Null if nothing had to be changed. */
  readonly text: string | null;
  /** Values, keys and containers to parse. */
  readonly values: number;
}

/** Position of the quote that ends the text that starts at `at`. */
function endOfText(bytes: Buffer, at: number, end: number): number {
  for (let i = at + 1; i < end; i++) {
    const byte = bytes[i];
    if (byte === BACKSLASH) i += 1;
    else if (byte === QUOTE) return i;
  }
  return end;
}

/**
 * Folds a part of a JSON text so that it can be parsed with little memory and stack: fields of an object beyond
 * {@link MAX_FIELDS}, and a value nested deeper than {@link MAX_LEVELS}, become one text of their JSON.
 */
export function foldJson(bytes: Buffer, start: number, end: number): FoldedJson {
  /** Fields of each open object so far; NaN for a list. */
  const fields: number[] = [];
  const parts: string[] = [];
  let copied = start;
  let level = 0;
  let values = 0;
  let fold: { readonly from: number; readonly level: number; readonly isOfFields: boolean } | null = null;
  const begin = (from: number, isOfFields: boolean) => {
    parts.push(bytes.toString("utf8", copied, from));
    fold = { from, level, isOfFields };
  };
  for (let i = start; i < end; i++) {
    const byte = bytes[i];
    if (byte === QUOTE) i = endOfText(bytes, i, end);
    else if (byte === OPEN_OBJECT || byte === OPEN_LIST) {
      level += 1;
      if (fold) continue;
      values += 1;
      if (level > MAX_LEVELS) begin(i, false);
      else fields[level] = byte === OPEN_OBJECT ? 1 : Number.NaN;
    } else if (byte === COMMA && !fold) {
      values += 1;
      const count = (fields[level] ?? Number.NaN) + 1;
      fields[level] = count;
      if (count > MAX_FIELDS) begin(i + 1, true);
    } else if (byte === COLON && !fold) values += 1;
    else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) {
      const { from, isOfFields, level: foldLevel } = fold ?? { from: 0, isOfFields: false, level: -1 };
      if (fold && level === foldLevel) {
        copied = isOfFields ? i : i + 1;
        const text = JSON.stringify(bytes.toString("utf8", from, copied));
        parts.push(isOfFields ? `${JSON.stringify(REST)}:${text}` : text);
        fold = null;
      }
      level -= 1;
    }
  }
  // Something that never ends is no JSON: the parser reports it.
  if (parts.length === 0 || fold) return { text: null, values };
  parts.push(bytes.toString("utf8", copied, end));
  return { text: parts.join(""), values };
}
