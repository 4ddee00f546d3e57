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

const [SPACE, TAB, NEWLINE, RETURN, COMMA, OPEN, CLOSE] = [0x20, 0x09, 0x0a, 0x0d, 0x2c, 0x7b, 0x7d];

/** Position of the last byte before `at` that is not whitespace; -1 for none. */
function lastBefore(bytes: Buffer, at: number): number {
  let i = at - 1;
  for (; i >= 0; i--) {
    const byte = bytes[i];
    if (byte !== SPACE && byte !== NEWLINE && byte !== RETURN && byte !== TAB) break;
  }
  return i;
}

/** Position of the comma before the object whose first key is at `at`; -1 if there is none. */
function commaBefore(bytes: Buffer, at: number): number {
  const open = lastBefore(bytes, at);
  if (open < 0 || bytes[open] !== OPEN) return -1;
  const comma = lastBefore(bytes, open);
  if (comma < 0 || bytes[comma] !== COMMA) return -1;
  return bytes[lastBefore(bytes, comma)] === CLOSE ? comma : -1;
}

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
