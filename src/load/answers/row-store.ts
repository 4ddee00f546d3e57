import type { Cell } from "../../schemas/convert.ts";

/** Encoded rows outside the JavaScript heap, so that the garbage collector does not copy their text. */
export interface StoredRows {
  readonly slab: Buffer;
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
  readonly count: number;
}

const SLAB_BYTES = 1024 * 1024;
/** Initial size of a separate buffer. */
const FIRST_BYTES = 16 * 1024;
/** No rows. */
export const NO_ROWS: StoredRows = { slab: Buffer.alloc(0), start: 0, end: 0, count: 0 };

const [TAB, NEWLINE, RETURN, BACKSLASH, CAPITAL_N] = [0x09, 0x0a, 0x0d, 0x5c, 0x4e];

/** Stores rows in COPY's text format, many per slab; a slab is freed with its last row. */
export type RowStore = (rows: readonly (readonly Cell[])[]) => StoredRows;

/** Position of the next rows. */
interface Slab {
  bytes: Buffer;
  /** Start of the current rows. */
  start: number;
  at: number;
}

const ESCAPES: Readonly<Record<string, string>> = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function writeEscaped(bytes: Buffer, at: number, text: string): number {
  const escaped = text.replace(/[\\\n\r\t]/g, (c) => ESCAPES[c] ?? c);
  return at + bytes.write(escaped, at, "utf8");
}

/**
 * Writes one cell and returns its end. Works byte by byte, because values are short and mostly ASCII.
 * This and the next function use only their arguments: closing over variables makes them three times slower.
 */
function writeCell(bytes: Buffer, start: number, cell: string): number {
  const { length } = cell;
  let at = start;
  for (let i = 0; i < length; i++) {
    const code = cell.charCodeAt(i);
    if (code > 0x7f || code === BACKSLASH || code === TAB || code === NEWLINE || code === RETURN) {
      return writeEscaped(bytes, at, cell.slice(i));
    }
    bytes[at++] = code;
  }
  return at;
}

/** Reserves this many bytes after the current rows. */
function reserve(slab: Slab, bytes: number, slabBytes: number): void {
  const written = slab.at - slab.start;
  const next = Buffer.allocUnsafeSlow(Math.max(slabBytes, 2 * (written + bytes)));
  slab.bytes.copy(next, 0, slab.start, slab.at);
  slab.bytes = next;
  slab.start = 0;
  slab.at = written;
}

function writeRow(slab: Slab, row: readonly Cell[], slabBytes: number): void {
  for (let i = 0; i < row.length; i++) {
    const cell = row[i] ?? null;
    // A character takes at most three bytes, even escaped; plus separators of cells.
    const most = cell === null ? 4 : cell.length * 3 + 4;
    if (slab.at + most > slab.bytes.length) reserve(slab, most, slabBytes);
    if (i > 0) slab.bytes[slab.at++] = TAB;
    if (cell === null) {
      slab.bytes[slab.at++] = BACKSLASH;
      slab.bytes[slab.at++] = CAPITAL_N;
    } else slab.at = writeCell(slab.bytes, slab.at, cell);
  }
  slab.bytes[slab.at++] = NEWLINE;
}

/** Creates a store. */
export function createRowStore(slabBytes = SLAB_BYTES): RowStore {
  const slab: Slab = { bytes: Buffer.allocUnsafeSlow(0), start: 0, at: 0 };
  return (rows) => {
    if (rows.length === 0) return NO_ROWS;
    slab.start = slab.at;
    for (const row of rows) writeRow(slab, row, slabBytes);
    return { slab: slab.bytes, start: slab.start, end: slab.at, count: rows.length };
  };
}

/** Encodes rows for immediate loading. */
export function encodeRows(rows: readonly (readonly Cell[])[]): Buffer {
  return bytesOf(createRowStore(FIRST_BYTES)(rows));
}

/** Bytes of some rows, without a copy. */
export function bytesOf({ slab, start, end }: StoredRows): Buffer {
  return slab.subarray(start, end);
}

const UNESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t" };

/** Decodes the cells of stored rows. */
export function decodeRows(stored: StoredRows): readonly (readonly Cell[])[] {
  if (stored.count === 0) return [];
  const lines = bytesOf(stored).toString("utf8").slice(0, -1).split("\n");
  return lines.map((line) =>
    line
      .split("\t")
      .map((cell) =>
        cell === "\\N" ? null : cell.replaceAll(/\\(.)/gu, (_, c: string) => UNESCAPES[c] ?? c),
      ),
  );
}

/** Concatenates stored rows. */
export function joinRows(stored: readonly StoredRows[]): Buffer {
  const joined = Buffer.allocUnsafe(stored.reduce((sum, { start, end }) => sum + end - start, 0));
  let at = 0;
  for (const { slab, start, end } of stored) at += slab.copy(joined, at, start, end);
  return joined;
}

/** Total number of rows. */
export function countRows(stored: readonly StoredRows[]): number {
  return stored.reduce((sum, { count }) => sum + count, 0);
}
