import { freeBytes } from "../../free-bytes.ts";
import type { Cell } from "../../schemas/convert.ts";

/** Rows of one table or list, as cells. */
type Rows = readonly (readonly Cell[])[];

/** Groups of encoded rows outside the JavaScript heap, so that the garbage collector does not copy their text. */
export interface StoredGroups {
  readonly slab: Buffer;
  readonly start: number;
  /** End of each group, counted from `start`; it begins at the end of the one before. */
  readonly ends: readonly number[];
}

const SLAB_BYTES = 1024 * 1024;
/** Initial size of a separate buffer. */
const FIRST_BYTES = 16 * 1024;

const [TAB, NEWLINE, RETURN, BACKSLASH, CAPITAL_N] = [0x09, 0x0a, 0x0d, 0x5c, 0x4e];

/** Stores groups of rows in COPY's text format, many per slab. */
export interface RowStore {
  add(groups: readonly Rows[]): StoredGroups;
  /** Frees the memory of all rows. */
  free(): void;
}

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
  const slabs = new Set<Buffer>();
  return {
    add(groups) {
      slab.start = slab.at;
      const ends = groups.map((rows) => {
        for (const row of rows) writeRow(slab, row, slabBytes);
        return slab.at - slab.start;
      });
      slabs.add(slab.bytes);
      return { slab: slab.bytes, start: slab.start, ends };
    },
    free() {
      for (const bytes of slabs) freeBytes(bytes);
      slabs.clear();
    },
  };
}

/** Encodes rows for immediate loading. */
export function encodeRows(rows: Rows): Buffer {
  return bytesOf(createRowStore(FIRST_BYTES).add([rows]), 0);
}

/** True if a group has no rows. */
export function isEmptyGroup({ ends }: StoredGroups, group: number): boolean {
  return ends[group] === (ends[group - 1] ?? 0);
}

/** Bytes of one group, without a copy. */
export function bytesOf({ slab, start, ends }: StoredGroups, group: number): Buffer {
  return slab.subarray(start + (ends[group - 1] ?? 0), start + (ends[group] ?? 0));
}

const UNESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t" };

/** Decodes the cells of one group's rows. */
export function decodeRows(stored: StoredGroups, group: number): Rows {
  if (isEmptyGroup(stored, group)) return [];
  const lines = bytesOf(stored, group).toString("utf8").slice(0, -1).split("\n");
  return lines.map((line) =>
    line
      .split("\t")
      .map((cell) =>
        cell === "\\N" ? null : cell.replaceAll(/\\(.)/gu, (_, c: string) => UNESCAPES[c] ?? c),
      ),
  );
}

/** Concatenates the rows that several stored groups have at this index. */
export function joinRows(stored: readonly StoredGroups[], group: number): Buffer {
  const filled = stored.filter((groups) => !isEmptyGroup(groups, group));
  return Buffer.concat(filled.map((groups) => bytesOf(groups, group)));
}
