import { hash } from "node:crypto";
import { freeBytes } from "../../body.ts";
import type { Cell } from "../../schemas/convert.ts";
import type { FlatList, ListDeclaration } from "../../schemas/flatten.ts";
import { personLists, personScalars } from "../../schemas/person.ts";
import { tableNamed } from "../../schemas/registry.ts";
import { loadedColumns } from "../../schemas/table.ts";

type Rows = readonly (readonly Cell[])[];

/** Groups of encoded rows outside the JavaScript heap, so that the garbage collector does not copy their text. */
interface StoredGroups {
  readonly slab: Buffer;
  readonly start: number;
  /** End of each group, counted from `start`; it begins at the end of the one before. */
  readonly ends: readonly number[];
}

const SLAB_BYTES = 1024 * 1024;

const FIRST_BYTES = 16 * 1024;

const [TAB, NEWLINE, RETURN, BACKSLASH, CAPITAL_N] = [0x09, 0x0a, 0x0d, 0x5c, 0x4e];

/** Stores groups of rows in COPY's text format, many per slab. */
export interface RowStore {
  add(groups: readonly Rows[]): StoredGroups;
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
      Object.assign(slab, { bytes: Buffer.allocUnsafeSlow(0), start: 0, at: 0 });
    },
  };
}

/** Encodes rows for immediate loading. */
export function encodeRows(rows: Rows): Buffer {
  return bytesOf(createRowStore(FIRST_BYTES).add([rows]), 0);
}

function isEmptyGroup({ ends }: StoredGroups, group: number): boolean {
  return ends[group] === (ends[group - 1] ?? 0);
}

/** Bytes of one group, without a copy. */
export function bytesOf({ slab, start, ends }: StoredGroups, group: number): Buffer {
  return slab.subarray(start + (ends[group - 1] ?? 0), start + (ends[group] ?? 0));
}

const UNESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t" };

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

/** Person in an answer. `undefined` marks fields absent from the answer, which keep their stored value. */
export interface PersonUpdate {
  readonly servicePid: string;
  /** In the order of `personScalars`. */
  readonly scalars: readonly (Cell | undefined)[];
  readonly extra: Cell | undefined;
  /** In the order of `personLists`. */
  readonly lists: readonly (FlatList | undefined)[];
}

/** Columns of the first group of an encoded person. */
export const PERSON_COLUMNS = ["service_pid", ...personScalars, "_extra"];

/** One nested list of a person, as a group of rows that are replaced together. */
export interface ListGroup {
  readonly name: string;
  readonly table: string;
  /** Columns that a row's cells fill, in order. */
  readonly columns: readonly string[];
  /** Column and constant that distinguish the list's rows in a shared table. */
  readonly discriminator: { readonly column: string; readonly value: string } | null;
}

/** The groups in declared order, as `PersonUpdate.lists` has them. */
export const listGroups: readonly ListGroup[] = Object.entries<ListDeclaration>(personLists).map(
  ([name, list]) => {
    const columns = loadedColumns(tableNamed(list.table));
    return {
      name,
      table: list.table,
      columns,
      discriminator:
        list.discriminator === undefined ? null : { column: columns[1] ?? "", value: list.discriminator },
    };
  },
);

/** Name of the group of the row in `person`. */
export const SCALARS = "scalars";

/** Names of all field groups: the scalars, then each list. */
export const groupNames: readonly string[] = [SCALARS, ...listGroups.map((group) => group.name)];

/** Characters of one group's hash in `person_state.group_hashes`. */
export const HASH_LENGTH = 16;

/** Hash of a group whose stored content is not completely known. */
export const UNKNOWN_HASH = "-".repeat(HASH_LENGTH);

/**
 * A person, encoded once for comparing and for loading: compact text, so that the parsed answer can be freed while it waits for its
 * commit.
 */
export interface EncodedPerson extends StoredGroups {
  readonly pid: string;
  readonly bytes: number;
  /** By {@link groupNames}, as in `person_state.group_hashes`. */
  readonly hashes: string;
  /** By scalar, then `_extra`: false for those absent from the answer, whose cells are null; null if all are present. */
  readonly columns: readonly boolean[] | null;
  /** By {@link groupNames}: false for groups absent from the answer; null if all are present. */
  readonly present: readonly boolean[] | null;
}

/** True if every scalar and list is present. */
export function isWhole({ columns, present }: EncodedPerson): boolean {
  return columns === null && present === null;
}

function digest(bytes: Buffer): string {
  return hash("sha256", bytes, "base64url").slice(0, HASH_LENGTH);
}

/** Hash of a group without rows: many lists are empty. */
const EMPTY_HASH = digest(Buffer.alloc(0));

function hashGroup(stored: StoredGroups, group: number): string {
  return isEmptyGroup(stored, group) ? EMPTY_HASH : digest(bytesOf(stored, group));
}

const isPresent = (value: unknown) => value !== undefined;

/** Encodes a person's groups and hashes them. */
export function encodePerson(update: PersonUpdate, store: Pick<RowStore, "add">): EncodedPerson {
  const { servicePid, scalars, extra, lists } = update;
  const cells = [...scalars, extra];
  const hasAll = cells.every(isPresent);
  const row = [servicePid, ...cells.map((cell) => cell ?? null)];
  const stored = store.add([[row], ...listGroups.map((_, i) => lists[i]?.rows ?? [])]);
  const present = [cells.some(isPresent), ...listGroups.map((_, i) => isPresent(lists[i]))];
  const hashes = present.map((isIn, i) => ((i === 0 ? hasAll : isIn) ? hashGroup(stored, i) : UNKNOWN_HASH));
  return {
    pid: servicePid,
    bytes: stored.ends.at(-1) ?? 0,
    ...stored,
    hashes: hashes.join(""),
    columns: hasAll ? null : cells.map(isPresent),
    present: present.every(Boolean) ? null : present,
  };
}

export function decodePerson(person: EncodedPerson): PersonUpdate {
  const { pid, columns, present } = person;
  // The PID precedes the scalars, and `_extra` follows them.
  const [[, ...row] = []] = decodeRows(person, 0);
  const cells = row.map((cell, i) => (columns?.[i] === false ? undefined : cell));
  return {
    servicePid: pid,
    scalars: cells.slice(0, -1),
    extra: cells.at(-1),
    lists: listGroups.map((_, i) =>
      present?.[i + 1] === false ? undefined : { rows: decodeRows(person, i + 1).map((cell) => [...cell]) },
    ),
  };
}
