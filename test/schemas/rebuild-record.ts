import type { Cell } from "../../src/schemas/convert.ts";
import { derivedNames } from "../../src/schemas/derive.ts";
import { personDerived } from "../../src/schemas/person.ts";
import type { ColumnType } from "../../src/schemas/field.ts";
import { listTypes, scalarTypes } from "./arbitrary-record.ts";
import { type NamedResult, type NamedRow, textsOf } from "./named-rows.ts";

function readCell(cell: Cell, type: ColumnType | undefined): unknown {
  if (cell === null || type === "text" || type === "date") return cell;
  if (type === "text[]") return textsOf(cell);
  return JSON.parse(cell);
}

function readExtra(cell: Cell): readonly (readonly [string, unknown])[] {
  return cell === null ? [] : Object.entries(JSON.parse(cell));
}

/** Every declared field of a list element; absent ones are null. */
function rebuildElement(row: NamedRow, list: string): Record<string, unknown> {
  const declared = Object.entries(listTypes[list] ?? {}).map(
    ([name, type]) => [name, readCell(row[name] ?? null, type)] as const,
  );
  return Object.fromEntries([...declared, ...readExtra(row["_extra"] ?? null)]);
}

function byPosition(a: NamedRow, b: NamedRow): number {
  return Number(a["position"]) - Number(b["position"]);
}

/** Rebuilds a record from its cells alone, like a reader of the warehouse. */
export function rebuildRecord(flat: NamedResult): Record<string, unknown> {
  const declared = Object.entries(flat.fields)
    .filter(([name]) => !derivedNames(personDerived).includes(name))
    .map(([name, cell]) => [name, readCell(cell, scalarTypes[name])] as const);
  const lists = Object.entries(flat.lists).flatMap(([name, rows]) => {
    if (rows === undefined) return [];
    return [[name, rows.toSorted(byPosition).map((row) => rebuildElement(row, name))] as const];
  });
  return Object.fromEntries([...declared, ...lists, ...readExtra(flat.extra)]);
}

/** The same record in the form that rows can represent: null lists are empty, absent fields of elements are null or an empty list. */
export function normalizeRecord(record: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const entries = Object.entries(record).map(([name, value]) => {
    const types = Object.hasOwn(listTypes, name) ? listTypes[name] : undefined;
    if (types === undefined) return [name, value] as const;
    const elements: readonly object[] = Array.isArray(value) ? value : [];
    const blank = Object.entries(types).map(
      ([field, type]) => [field, type === "text[]" ? [] : null] as const,
    );
    const isKept = ([field, inner]: readonly [string, unknown]) =>
      inner !== null || !Object.hasOwn(types, field);
    const filled = elements.map((element) =>
      Object.fromEntries([...blank, ...Object.entries(element).filter(isKept)]),
    );
    return [name, filled] as const;
  });
  return Object.fromEntries(entries);
}

/** JSON text that is equal for equal values, independent of key order. */
export function canonicalJson(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, inner]) => `${JSON.stringify(key)}:${canonicalJson(inner)}`).join(",")}}`;
}
