import type { Db } from "../db/db.ts";
import { hash } from "node:crypto";
import type { Cell } from "../../schemas/convert.ts";
import { personChildren, personLists, personScalars } from "../../schemas/person.ts";
import type { FlatList } from "../../schemas/flatten.ts";
import type { ListDeclaration } from "../../schemas/record.ts";
import { bytesOf, NO_ROWS, type StoredRows, type RowStore } from "./row-store.ts";

/** Person in an answer. `undefined` marks fields absent from the answer, which keep their stored value. */
export interface PersonUpdate {
  readonly servicePid: string;
  /** In the order of `personScalars`. */
  readonly scalars: readonly (Cell | undefined)[];
  readonly extra: Cell | undefined;
  /** In the order of `personLists`. */
  readonly lists: readonly (FlatList | undefined)[];
}

/**
 * Person in the encoding of the place of record: compact text, so that the parsed answer can be freed before loading.
 */
export interface PreparedPerson {
  readonly pid: string;
  /** Bytes of the encoded rows. */
  readonly bytes: number;
}

/** Scalar columns of `person` in declared order. */
export const scalarNames = personScalars;

/** One nested list of a person, as a group of rows that are replaced together. */
export interface ListGroup {
  readonly name: string;
  readonly table: string;
  /** Columns that a row's cells fill, in order. */
  readonly columns: readonly string[];
  /** Column and constant that distinguish the list's rows in a shared table. */
  readonly discriminator: { readonly column: string; readonly value: string } | null;
}

function childColumns(name: string): readonly string[] {
  const child = personChildren.find((t) => t.name === name);
  if (!child) throw new Error(`No child table ${name} is declared.`);
  return child.columns.map((c) => c.name).filter((column) => column !== "_synced_at" && column !== "_run_id");
}

/** The groups in declared order, as `PersonUpdate.lists` has them. */
export const listGroups: readonly ListGroup[] = Object.entries<ListDeclaration>(personLists).map(
  ([name, list]) => {
    const columns = childColumns(list.table);
    return {
      name,
      table: list.table,
      columns,
      discriminator:
        list.discriminator === undefined ? null : { column: columns[1] ?? "", value: list.discriminator },
    };
  },
);

/** Names of all field groups: the scalars, then each list. */
export const groupNames: readonly string[] = ["scalars", ...listGroups.map((group) => group.name)];

/** Characters of one group's hash in `person_state.group_hashes`. */
export const HASH_LENGTH = 16;
/** Hash of a group whose stored content is not completely known. */
export const UNKNOWN_HASH = "-".repeat(HASH_LENGTH);

/** One group's content in COPY's text format (rows without bookkeeping columns), and its hash. */
export interface EncodedGroup {
  readonly hash: string;
  readonly rows: StoredRows;
}

/** A person, encoded once: for comparing and for loading. */
export interface EncodedPerson extends PreparedPerson {
  /** Cells of the scalars; null if all of them are in `groups[0]`. */
  readonly partial: Pick<PersonUpdate, "scalars" | "extra"> | null;
  /** True if every scalar and list is present. */
  readonly isWhole: boolean;
  /** By {@link groupNames}; undefined for groups absent from the answer. */
  readonly groups: readonly (EncodedGroup | undefined)[];
}

function digest(bytes: Buffer): string {
  return hash("sha256", bytes, "base64url").slice(0, HASH_LENGTH);
}

/** Hash of a group without rows: many lists are empty. */
const EMPTY_HASH = digest(Buffer.alloc(0));
const EMPTY_GROUP: EncodedGroup = { hash: EMPTY_HASH, rows: NO_ROWS };

function encodeScalars(update: PersonUpdate, store: RowStore): EncodedGroup | undefined {
  if (update.extra === undefined && update.scalars.every((cell) => cell === undefined)) return undefined;
  const isWhole = update.extra !== undefined && update.scalars.every((cell) => cell !== undefined);
  const cells: Cell[] = [update.servicePid];
  for (const cell of update.scalars) cells.push(cell ?? null);
  cells.push(update.extra ?? null);
  const rows = store([cells]);
  return { hash: isWhole ? digest(bytesOf(rows)) : UNKNOWN_HASH, rows };
}

function hashList(rows: StoredRows): string {
  return rows.count === 0 ? EMPTY_HASH : digest(bytesOf(rows));
}

function encodeList(list: FlatList, store: RowStore): EncodedGroup {
  if (list.rows.length === 0) return EMPTY_GROUP;
  const rows = store(list.rows);
  return { hash: hashList(rows), rows };
}

/** A list's group with other rows. */
export function withListRows(group: EncodedGroup, rows: StoredRows): EncodedGroup {
  return { ...group, rows, hash: hashList(rows) };
}

/** The scalars' group with another row. */
export function withScalarRow(group: EncodedGroup, rows: StoredRows): EncodedGroup {
  return { ...group, rows, hash: group.hash === UNKNOWN_HASH ? UNKNOWN_HASH : digest(bytesOf(rows)) };
}

/** Encodes a person's groups and hashes them. */
export function encodePerson(update: PersonUpdate, store: RowStore): EncodedPerson {
  const scalars = encodeScalars(update, store);
  const lists = listGroups.map((_, i): EncodedGroup | undefined => {
    const list = update.lists[i];
    return list && encodeList(list, store);
  });
  const hasAllScalars = scalars !== undefined && scalars.hash !== UNKNOWN_HASH;
  const groups = [scalars, ...lists];
  return {
    pid: update.servicePid,
    bytes: groups.reduce((sum, group) => sum + (group ? group.rows.end - group.rows.start : 0), 0),
    partial: hasAllScalars ? null : { scalars: update.scalars, extra: update.extra },
    isWhole: hasAllScalars && lists.every((list) => list !== undefined),
    groups,
  };
}

/** Encodes a person for COPY; synchronous. */
export function preparePerson(db: Pick<Db, "storeRows">, update: PersonUpdate): PreparedPerson {
  return encodePerson(update, db.storeRows);
}
