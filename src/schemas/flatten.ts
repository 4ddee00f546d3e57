import { rawNumber } from "../raw-json.ts";
import { type Cell, type Convert, converterOf, jsonType, UNEXPECTED } from "./convert.ts";
import type { DriftLog } from "./drift.ts";
import type { Fields } from "./field.ts";
import type { ListDeclaration, RecordDeclaration } from "./record.ts";

/** A parsed JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** True for a JSON object: not null, not an array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && rawNumber(value) === null;
}

/** The scalar fields of one object, in declared order; undefined where the object does not speak of the field. */
export interface FlatObject {
  readonly cells: (Cell | undefined)[];
  /** What goes to `_extra`: unknown fields, and values of unexpected types, by field name. */
  extra: Record<string, unknown> | null;
}

/** Rows of one nested list, each with its key columns, fields, and `_extra`, in the child table's column order. */
export interface FlatList {
  readonly rows: Cell[][];
  /** Rows of the grandchild table (`person_education_subject`). */
  readonly subjects: Cell[][];
}

interface Reader {
  readonly names: readonly string[];
  readonly converts: readonly Convert[];
  /** Every name that is not unknown. */
  readonly known: ReadonlySet<string>;
  readonly pathPrefix: string;
}

function readerOf(fields: Fields, alsoKnown: readonly string[], pathPrefix: string): Reader {
  const names = Object.keys(fields);
  return {
    names,
    converts: Object.values(fields).map(converterOf),
    known: new Set([...names, ...alsoKnown]),
    pathPrefix,
  };
}

function keep(extra: Record<string, unknown> | null, name: string, value: unknown): Record<string, unknown> {
  const kept = extra ?? {};
  // defineProperty, because a field may be called __proto__.
  Object.defineProperty(kept, name, { value, enumerable: true, writable: true, configurable: true });
  return kept;
}

/** Reads declared scalar fields; unknown ones and unexpected types go to `extra` and are noted as drift. */
function readObject(reader: Reader, object: JsonObject, knownBeside: number, drift: DriftLog): FlatObject {
  const { names, converts } = reader;
  const cells = new Array<Cell | undefined>(names.length);
  let extra: Record<string, unknown> | null = null;
  let seen = knownBeside;
  for (let i = 0; i < names.length; i++) {
    const name = names[i] ?? "";
    const value = object[name];
    if (value === undefined) {
      cells[i] = undefined;
      continue;
    }
    seen += 1;
    if (value === null) {
      cells[i] = null;
      continue;
    }
    const cell = converts[i]?.(value) ?? UNEXPECTED;
    if (cell === UNEXPECTED) {
      drift.note("unexpected_type", reader.pathPrefix + name, jsonType(value));
      extra = keep(extra, name, value);
      cells[i] = null;
    } else {
      cells[i] = cell;
    }
  }
  const keys = Object.keys(object);
  if (keys.length !== seen) {
    for (const key of keys) {
      if (reader.known.has(key)) continue;
      drift.note("unknown_field", reader.pathPrefix + key, jsonType(object[key]));
      extra = keep(extra, key, object[key]);
    }
  }
  return { cells, extra };
}

/** `_extra` as a cell. */
export function extraCell(extra: Record<string, unknown> | null): Cell {
  return extra === null ? null : JSON.stringify(extra);
}

/** Flattens one nested list; undefined when the record does not speak of it, null and [] are an empty list. */
type ListReader = (value: unknown, pid: string, parent: FlatObject, drift: DriftLog) => FlatList | undefined;

function listReaderOf(name: string, list: ListDeclaration): ListReader {
  const arrays = list.subjects?.arrays ?? [];
  const reader = readerOf(
    list.fields,
    arrays.map((a) => a.field),
    `${name}[].`,
  );
  return (value, pid, parent, drift) => {
    if (value === undefined) return undefined;
    const flat: FlatList = { rows: [], subjects: [] };
    if (value === null) return flat;
    if (!Array.isArray(value)) {
      drift.note("unexpected_type", name, jsonType(value));
      parent.extra = keep(parent.extra, name, value);
      // The stored rows stay: a list of an unexpected type says nothing about them.
      return undefined;
    }
    let misplaced: Record<string, unknown> | null = null;
    for (let position = 0; position < value.length; position++) {
      const element: unknown = value[position];
      if (!isJsonObject(element)) {
        drift.note("unexpected_type", `${name}[]`, jsonType(element));
        misplaced = keep(misplaced, String(position), element);
        continue;
      }
      let knownBeside = 0;
      for (const array of arrays) if (element[array.field] !== undefined) knownBeside += 1;
      const object = readObject(reader, element, knownBeside, drift);
      for (const { field, discriminator } of arrays) {
        const path = `${name}[].${field}`;
        readSubjects(
          element[field],
          { pid, position, discriminator, field, path },
          object,
          flat.subjects,
          drift,
        );
      }
      const row: Cell[] = list.discriminator === undefined ? [pid] : [pid, list.discriminator];
      row.push(String(position));
      for (const cell of object.cells) row.push(cell ?? null);
      row.push(extraCell(object.extra));
      flat.rows.push(row);
    }
    if (misplaced) parent.extra = keep(parent.extra, name, misplaced);
    return flat;
  };
}

interface SubjectPlace {
  readonly pid: string;
  readonly position: number;
  readonly discriminator: string;
  readonly field: string;
  readonly path: string;
}

function readSubjects(
  value: unknown,
  place: SubjectPlace,
  parent: FlatObject,
  rows: Cell[][],
  drift: DriftLog,
): void {
  if (value === undefined || value === null) return;
  if (!Array.isArray(value)) {
    drift.note("unexpected_type", place.path, jsonType(value));
    parent.extra = keep(parent.extra, place.field, value);
    return;
  }
  let misplaced: Record<string, unknown> | null = null;
  for (let i = 0; i < value.length; i++) {
    const subject: unknown = value[i];
    if (typeof subject === "string") {
      rows.push([place.pid, String(place.position), place.discriminator, String(i), subject]);
    } else {
      drift.note("unexpected_type", `${place.path}[]`, jsonType(subject));
      misplaced = keep(misplaced, String(i), subject);
    }
  }
  if (misplaced) parent.extra = keep(parent.extra, place.field, misplaced);
}

/** One result of a lookup, flattened. */
export interface FlatResult {
  /** Scalar fields by name, in declared order. */
  readonly object: FlatObject;
  /** Nested lists in declared order; empty for endpoints without lists or results without a PID. */
  readonly lists: (FlatList | undefined)[];
}

/** Flattens results of one endpoint; pure, total, never throws for any JSON value. */
export interface Flattener {
  readonly fieldNames: readonly string[];
  readonly listNames: readonly string[];
  /** @param pid under which child rows are keyed; null leaves the lists out (they go to `extra` if not empty). */
  flatten(result: JsonObject, pid: string | null, drift: DriftLog): FlatResult;
}

/** Compiles a record declaration. */
export function flattenerOf(declaration: RecordDeclaration): Flattener {
  const listNames = Object.keys(declaration.lists);
  const reader = readerOf(declaration.fields, listNames, "");
  const lists = Object.entries(declaration.lists).map(([name, list]) => listReaderOf(name, list));
  return {
    fieldNames: reader.names,
    listNames,
    flatten(result, pid, drift) {
      let knownBeside = 0;
      for (const name of listNames) if (result[name] !== undefined) knownBeside += 1;
      const object = readObject(reader, result, knownBeside, drift);
      if (pid === null) {
        for (const name of listNames) {
          const value = result[name];
          const isEmpty =
            value === undefined || value === null || (Array.isArray(value) && value.length === 0);
          if (!isEmpty) object.extra = keep(object.extra, name, value);
        }
        return { object, lists: [] };
      }
      return { object, lists: lists.map((read, i) => read(result[listNames[i] ?? ""], pid, object, drift)) };
    },
  };
}
