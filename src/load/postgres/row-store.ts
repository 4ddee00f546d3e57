import type { Cell } from "../../schemas/convert.ts";

/** Encoded rows, outside the JavaScript heap: the collector would copy their text from place to place until it is loaded. */
export interface StoredRows {
  readonly slab: Buffer;
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
  readonly count: number;
}

const SLAB_BYTES = 1024 * 1024;
const NONE: StoredRows = { slab: Buffer.alloc(0), start: 0, end: 0, count: 0 };

const [TAB, NEWLINE, RETURN, BACKSLASH, CAPITAL_N] = [0x09, 0x0a, 0x0d, 0x5c, 0x4e];

/** Puts rows away in COPY's text format, many in one slab; a slab lives as long as any of its rows. */
export type StoreRows = (rows: readonly (readonly Cell[])[]) => StoredRows;

/** A store of its own. */
export function createRowStore(slabBytes = SLAB_BYTES): StoreRows {
  let slab = Buffer.allocUnsafeSlow(0);
  let start = 0;
  let at = 0;

  /** Makes room for so many bytes behind what the rows at hand have written already. */
  function reserve(bytes: number): void {
    if (at + bytes <= slab.length) return;
    const written = at - start;
    const next = Buffer.allocUnsafeSlow(Math.max(slabBytes, 2 * (written + bytes)));
    slab.copy(next, 0, start, at);
    [slab, start, at] = [next, 0, written];
  }

  /**
   * Writes one cell. Byte by byte: values are short and mostly ASCII, and making one text of them first costs more
   * than the bytes themselves.
   */
  function writeCell(cell: string): void {
    const { length } = cell;
    for (let i = 0; i < length; i++) {
      const code = cell.charCodeAt(i);
      if (code > 0x7f) {
        writeEscaped(cell.slice(i));
        return;
      }
      if (code === BACKSLASH) slab[at++] = BACKSLASH;
      else if (code === TAB || code === NEWLINE || code === RETURN) {
        writeEscaped(cell.slice(i));
        return;
      }
      slab[at++] = code;
    }
  }

  function writeEscaped(text: string): void {
    const escaped = text.replace(/[\\\n\r\t]/g, (c) => ESCAPES[c] ?? c);
    at += slab.write(escaped, at, "utf8");
  }

  return (rows) => {
    if (rows.length === 0) return NONE;
    start = at;
    for (const row of rows) {
      for (let i = 0; i < row.length; i++) {
        const cell = row[i] ?? null;
        // No character takes more than three bytes, nor one that is escaped; two more for what parts cells.
        reserve(cell === null ? 4 : cell.length * 3 + 4);
        if (i > 0) slab[at++] = TAB;
        if (cell === null) {
          slab[at++] = BACKSLASH;
          slab[at++] = CAPITAL_N;
        } else writeCell(cell);
      }
      slab[at++] = NEWLINE;
    }
    return { slab, start, end: at, count: rows.length };
  };
}

const ESCAPES: Readonly<Record<string, string>> = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** The bytes of some rows, where they lie. */
export function bytesOf({ slab, start, end }: StoredRows): Buffer {
  return slab.subarray(start, end);
}

/** Stored rows one behind the other. */
export function joinRows(stored: readonly StoredRows[]): Buffer {
  const joined = Buffer.allocUnsafe(stored.reduce((sum, { start, end }) => sum + end - start, 0));
  let at = 0;
  for (const { slab, start, end } of stored) at += slab.copy(joined, at, start, end);
  return joined;
}

/** How many rows there are in all. */
export function countRows(stored: readonly StoredRows[]): number {
  return stored.reduce((sum, { count }) => sum + count, 0);
}
