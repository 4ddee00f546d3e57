import { hash } from "node:crypto";
import type { Cell } from "../../schemas/convert.ts";
import { personChildren, personLists, personScalars } from "../../schemas/person.ts";
import type { FlatList } from "../../schemas/flatten.ts";
import type { ListDeclaration } from "../../schemas/attempt.ts";
import { bytesOf, decodeRows, isEmptyGroup, type RowStore, type StoredGroups } from "./row-store.ts";

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

/** A person, encoded once, for comparing and for loading. Compact, because those that wait for their commit are in memory. */
export interface EncodedPerson extends PreparedPerson, StoredGroups {
  /** By {@link groupNames}, as in `person_state.group_hashes`. */
  readonly hashes: string;
  /** Cells of the scalars; null if all of them are present. */
  readonly partial: Pick<PersonUpdate, "scalars" | "extra"> | null;
  /** By {@link groupNames}: false for groups absent from the answer; null if all are present. */
  readonly present: readonly boolean[] | null;
}

/** True if every scalar and list is present. */
export function isWhole({ partial, present }: EncodedPerson): boolean {
  return partial === null && present === null;
}

function digest(bytes: Buffer): string {
  return hash("sha256", bytes, "base64url").slice(0, HASH_LENGTH);
}

/** Hash of a group without rows: many lists are empty. */
const EMPTY_HASH = digest(Buffer.alloc(0));

function hashGroup(stored: StoredGroups, group: number): string {
  return isEmptyGroup(stored, group) ? EMPTY_HASH : digest(bytesOf(stored, group));
}

/** Encodes a person's groups and hashes them. */
export function encodePerson(update: PersonUpdate, store: Pick<RowStore, "add">): EncodedPerson {
  const { servicePid, scalars, extra, lists } = update;
  const cells = [servicePid, ...scalars, extra];
  const hasAll = !cells.includes(undefined);
  const hasAny = scalars.some((cell) => cell !== undefined) || extra !== undefined;
  const row = cells.map((cell) => cell ?? null);
  const stored = store.add([[row], ...listGroups.map((_, i) => lists[i]?.rows ?? [])]);
  const present = [hasAny, ...listGroups.map((_, i) => lists[i] !== undefined)];
  const hashes = present.map((isPresent, i) =>
    (i === 0 ? hasAll : isPresent) ? hashGroup(stored, i) : UNKNOWN_HASH,
  );
  return {
    pid: servicePid,
    bytes: stored.ends.at(-1) ?? 0,
    ...stored,
    hashes: hashes.join(""),
    partial: hasAll ? null : { scalars, extra },
    present: present.every(Boolean) ? null : present,
  };
}

/** Decodes a person. */
export function decodePerson(person: EncodedPerson): PersonUpdate {
  const { pid, partial, present } = person;
  const [scalarRow = []] = decodeRows(person, 0);
  return {
    servicePid: pid,
    // The PID precedes the scalars, and `_extra` follows them.
    ...(partial ?? { scalars: scalarRow.slice(1, -1), extra: scalarRow.at(-1) }),
    lists: listGroups.map((_, i) =>
      present?.[i + 1] === false ? undefined : { rows: decodeRows(person, i + 1).map((row) => [...row]) },
    ),
  };
}
