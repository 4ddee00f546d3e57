import {
  type Cell,
  type Convert,
  converterOf,
  type DriftLog,
  EMPTY_LIST,
  fieldName,
  jsonText,
  jsonType,
  rawNumber,
  splitTexts,
  UNEXPECTED,
} from "./convert.ts";
import { type Derivation, derivedNames, deriverOf } from "./derive.ts";
import type { Fields } from "./field.ts";

/** Nested array of objects, flattened to a child table: one row per element, `position` is its 0-based index. */
export interface ListDeclaration {
  readonly fields: Fields;
  /** Child table; lists that share one differ in `discriminator`. */
  readonly table: string;
  /** Constant of the child table's discriminator column (`email_type`), if it has one. */
  readonly discriminator?: string;
  readonly derived?: readonly Derivation[];
}

/** Object of the interface: scalar fields and nested lists by their name in the interface. */
export interface RecordDeclaration {
  readonly fields: Fields;
  readonly lists: Readonly<Record<string, ListDeclaration>>;
  readonly derived?: readonly Derivation[];
  /** `figures` to keep only numbers and booleans of undeclared fields. */
  readonly extra?: "figures";
}

export type JsonObject = Readonly<Record<string, unknown>>;

/** True for a JSON object: not null, not an array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && rawNumber(value) === null;
}

/** Fields for `_extra` by name: unknown ones, and values of unexpected types; null if there are none. */
type Extra = Record<string, unknown> | null;

/** Scalar fields of one object, in declared order, then derived columns; undefined if the field is absent. */
interface FlatObject {
  readonly cells: (Cell | undefined)[];
  extra: Extra;
}

/** Rows of one nested list, each with its key columns, fields, derived columns, and `_extra`, in the child table's column order. */
export interface FlatList {
  readonly rows: Cell[][];
}

interface Reader {
  readonly names: readonly string[];
  readonly converts: readonly Convert[];
  /** By index: true for text, which needs no conversion. */
  readonly isText: readonly boolean[];
  /** By index: cell of an absent value; an empty list for lists. */
  readonly empty: readonly Cell[];
  /** Index of each scalar field by name, or {@link NOT_SCALAR}. */
  readonly indexes: ReadonlyMap<string, number>;
  readonly pathPrefix: string;
}

/** Index of a declared field that another reader handles. */
const NOT_SCALAR = -1;

function readerOf(fields: Fields, others: readonly string[], pathPrefix: string): Reader {
  const names = Object.keys(fields);
  const indexes = new Map(names.map((name, index) => [name, index]));
  for (const name of others) indexes.set(name, NOT_SCALAR);
  return {
    names,
    converts: Object.values(fields).map(converterOf),
    isText: Object.values(fields).map((f) => f.type === "text"),
    empty: Object.values(fields).map((f) => (f.type === "text[]" ? EMPTY_LIST : null)),
    indexes,
    pathPrefix,
  };
}

function keep(extra: Extra, name: string, value: unknown): Record<string, unknown> {
  const kept = extra ?? {};
  // defineProperty, because a field may be called __proto__.
  Object.defineProperty(kept, name, { value, enumerable: true, writable: true, configurable: true });
  return kept;
}

/**
 * Reads declared scalar fields into `cells` from `offset` on and leaves cells of absent fields unchanged; unknown
 * fields and unexpected types are returned for `_extra` and recorded as drift.
 *
 * Hot path of a load: `for … in` with a guess at the next field is twice as fast as a lookup by
 * declared name.
 */
function readFields(
  reader: Reader,
  object: JsonObject,
  cells: (Cell | undefined)[],
  offset: number,
  drift: DriftLog,
): Extra {
  const { names, converts, isText, empty, indexes } = reader;
  let extra: Extra = null;
  let next = 0;
  for (const name in object) {
    const index = name === names[next] ? next : indexes.get(name);
    const value = object[name];
    if (index === NOT_SCALAR || value === undefined) continue;
    if (index === undefined) {
      drift.note("unknown_field", reader.pathPrefix + fieldName(name), jsonType(value));
      extra = keep(extra, name, value);
      continue;
    }
    next = index + 1;
    if (isText[index] && typeof value === "string") {
      cells[offset + index] = value;
      continue;
    }
    const none = empty[index] ?? null;
    if (value === null) {
      cells[offset + index] = none;
      continue;
    }
    const cell = converts[index]?.(value) ?? UNEXPECTED;
    if (cell !== UNEXPECTED) {
      cells[offset + index] = cell;
    } else if (none === EMPTY_LIST && Array.isArray(value)) {
      const { cell: texts, misplaced } = splitTexts(value);
      for (const item of misplaced?.values() ?? []) {
        drift.note("unexpected_type", `${reader.pathPrefix}${name}[]`, jsonType(item));
      }
      cells[offset + index] = texts;
      extra = keep(extra, name, Object.fromEntries(misplaced ?? []));
    } else {
      drift.note("unexpected_type", reader.pathPrefix + name, jsonType(value));
      cells[offset + index] = none;
      extra = keep(extra, name, value);
    }
  }
  return extra;
}

/** Keeps numbers and booleans with plain names. */
function figuresOf(extra: Extra): Extra {
  const figures = Object.entries(extra ?? {}).filter(
    ([name, value]) =>
      fieldName(name) === name &&
      (typeof value === "number" || typeof value === "boolean" || rawNumber(value) !== null),
  );
  return figures.length === 0 ? null : Object.fromEntries(figures);
}

export function extraCell(extra: Extra): Cell {
  return extra === null ? null : jsonText(extra);
}

/** Flattens one nested list; undefined if the record omits it, null and [] are an empty list. */
type ListReader = (value: unknown, pid: string, parent: FlatObject, drift: DriftLog) => FlatList | undefined;

function listReaderOf(
  name: string,
  list: ListDeclaration,
  pathPrefix: string,
  kept: (extra: Extra) => Extra,
): ListReader {
  const path = `${pathPrefix}${name}[]`;
  const reader = readerOf(list.fields, [], `${path}.`);
  const keyWidth = list.discriminator === undefined ? 2 : 3;
  const derivations = list.derived ?? [];
  const derivedAt = keyWidth + reader.names.length;
  const derive = deriverOf(derivations, reader.names, keyWidth);
  const width = derivedAt + derivedNames(derivations).length + 1;
  const blank = new Array<Cell>(width).fill(null);
  blank.splice(keyWidth, reader.empty.length, ...reader.empty);
  if (list.discriminator !== undefined) blank[1] = list.discriminator;
  return (value, pid, parent, drift) => {
    if (value === undefined) return undefined;
    const flat: FlatList = { rows: [] };
    if (value === null) return flat;
    if (!Array.isArray(value)) {
      drift.note("unexpected_type", pathPrefix + name, jsonType(value));
      parent.extra = keep(parent.extra, name, value);
      // Stored rows stay: a list of an unexpected type is no evidence about them.
      return undefined;
    }
    let misplaced: Extra = null;
    for (let position = 0; position < value.length; position++) {
      const element: unknown = value[position];
      if (!isJsonObject(element)) {
        drift.note("unexpected_type", path, jsonType(element));
        misplaced = keep(misplaced, String(position), element);
        continue;
      }
      const row = blank.slice();
      row[0] = pid;
      row[keyWidth - 1] = String(position);
      row[width - 1] = extraCell(kept(readFields(reader, element, row, keyWidth, drift)));
      derive(row, derivedAt);
      flat.rows.push(row);
    }
    if (misplaced) parent.extra = keep(parent.extra, name, misplaced);
    return flat;
  };
}

/** One result of a lookup, flattened. */
export interface FlatResult {
  /** Scalar fields by name, in declared order. */
  readonly object: FlatObject;
  /** Nested lists in declared order; empty for endpoints without lists or results without a PID. */
  readonly lists: (FlatList | undefined)[];
}

/** Flattens results of one endpoint; pure, total, never throws for any JSON value. */
interface Flattener {
  readonly fieldNames: readonly string[];
  /** The fields, then derived columns: one name per cell. */
  readonly cellNames: readonly string[];
  readonly listNames: readonly string[];
  /** @param pid key of the child rows; null skips the lists (non-empty ones go to `extra`). */
  flatten(result: JsonObject, pid: string | null, drift: DriftLog): FlatResult;
}

/**
 * Compiles a record declaration.
 * @param pathPrefix path of the record within the result, for drift: `signal_metadata.`
 */
export function flattenerOf(declaration: RecordDeclaration, pathPrefix = ""): Flattener {
  const listNames = Object.keys(declaration.lists);
  const kept = declaration.extra === "figures" ? figuresOf : (extra: Extra) => extra;
  const reader = readerOf(declaration.fields, listNames, pathPrefix);
  const lists = Object.entries(declaration.lists).map(([name, list]) => ({
    name,
    read: listReaderOf(name, list, pathPrefix, kept),
  }));
  const derivations = declaration.derived ?? [];
  const cellNames = [...reader.names, ...derivedNames(derivations)];
  const derive = deriverOf(derivations, reader.names, 0);
  const blank = new Array<Cell | undefined>(cellNames.length).fill(undefined);
  return {
    fieldNames: reader.names,
    cellNames,
    listNames,
    flatten(result, pid, drift) {
      const cells = blank.slice();
      const object: FlatObject = { cells, extra: readFields(reader, result, cells, 0, drift) };
      derive(cells, reader.names.length);
      if (pid === null) {
        for (const name of listNames) {
          const value = result[name];
          const isEmpty =
            value === undefined || value === null || (Array.isArray(value) && value.length === 0);
          if (!isEmpty) object.extra = keep(object.extra, name, value);
        }
        return { object, lists: [] };
      }
      const flat = lists.map(({ name, read }) => read(result[name], pid, object, drift));
      object.extra = kept(object.extra);
      return { object, lists: flat };
    },
  };
}
