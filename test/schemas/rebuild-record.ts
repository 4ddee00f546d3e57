import type { Cell } from "../../src/schemas/convert.ts";
import { derivedNames } from "../../src/schemas/derive.ts";
import { personDerived } from "../../src/schemas/person.ts";
import { listWires, scalarWires, type Wire } from "./arbitrary-record.ts";
import { type NamedResult, type NamedRow, textsOf } from "./named-rows.ts";

function readCell(cell: Cell, wire: Wire): unknown {
  if (wire === "texts") return cell === null ? null : textsOf(cell);
  if (cell === null || wire === "text" || wire === "date") return cell;
  return wire === "boolean" ? cell === "true" : Number(cell);
}

function readExtra(cell: Cell): readonly (readonly [string, unknown])[] {
  return cell === null ? [] : Object.entries(JSON.parse(cell));
}

/** Every declared field of a list element; absent ones are null. */
function rebuildElement(row: NamedRow, wires: Readonly<Record<string, Wire>>): Record<string, unknown> {
  const declared = Object.entries(wires).map(
    ([name, wire]) => [name, readCell(row[name] ?? null, wire)] as const,
  );
  return Object.fromEntries([...declared, ...readExtra(row["_extra"] ?? null)]);
}

function byPosition(a: NamedRow, b: NamedRow): number {
  return Number(a["position"]) - Number(b["position"]);
}

/** Rebuilds a record from its cells alone, like a reader of the warehouse. */
export function rebuildRecord(flat: NamedResult): Record<string, unknown> {
  const { validation_errors: errors, ...scalars } = flat.fields;
  const sent = Object.entries(scalars).filter(([name]) => !derivedNames(personDerived).includes(name));
  const declared = sent.map(([name, cell]) => {
    const wire = scalarWires[name];
    if (wire === undefined) throw new Error(`no field ${name} in the interface`);
    return [name, readCell(cell, wire)] as const;
  });
  const lists = Object.entries(flat.lists).flatMap(([name, rows]) => {
    if (rows === undefined) return [];
    const elements = rows.toSorted(byPosition).map((row) => rebuildElement(row, listWires[name] ?? {}));
    return [[name, elements] as const];
  });
  return Object.fromEntries([
    ...declared,
    ...(errors === undefined
      ? []
      : [["validation_errors", errors === null ? null : JSON.parse(errors)] as const]),
    ...lists,
    ...readExtra(flat.extra),
  ]);
}

/** The same record in the form that rows can represent: null lists are empty, absent fields of elements are null or an empty list. */
export function normalizeRecord(record: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const entries = Object.entries(record).map(([name, value]) => {
    const wires = Object.hasOwn(listWires, name) ? listWires[name] : undefined;
    if (wires === undefined) return [name, value] as const;
    const elements: readonly object[] = Array.isArray(value) ? value : [];
    const blank = Object.keys(wires).map((field) => [field, null] as const);
    return [
      name,
      elements.map((element) => {
        const filled = Object.fromEntries([...blank, ...Object.entries(element)]);
        const texts = Object.keys(wires).filter((field) => wires[field] === "texts");
        for (const field of texts) filled[field] ??= [];
        return filled;
      }),
    ] as const;
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
