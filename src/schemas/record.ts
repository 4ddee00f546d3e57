import { z } from "zod";
import type { Derivation } from "./derive.ts";
import { type Fields, shapeOf } from "./field.ts";

/** Nested array of objects, flattened to a child table: one row per element, `position` is its 0-based index. */
export interface ListDeclaration {
  readonly fields: Fields;
  /** Child table; lists that share one differ in `discriminator`. */
  readonly table: string;
  /** Constant of the child table's discriminator column (`email_type`), if it has one. */
  readonly discriminator?: string;
  /** Columns computed from the fields. */
  readonly derived?: readonly Derivation[];
}

/** Object of the interface: scalar fields and nested lists by their name in the interface. */
export interface RecordDeclaration {
  readonly fields: Fields;
  readonly lists: Readonly<Record<string, ListDeclaration>>;
  /** Columns computed from the fields. */
  readonly derived?: readonly Derivation[];
  /** `figures` to keep only numbers and booleans of undeclared fields. */
  readonly extra?: "figures";
}

/** Returns the zod schema of a declared record: checks declared fields, allows unknown ones. Lists may be null. */
export function zodOf(declaration: RecordDeclaration): z.ZodObject {
  const lists = Object.entries(declaration.lists).map(([name, list]) => {
    return [name, z.array(z.looseObject(shapeOf(list.fields))).nullable()] as const;
  });
  return z.looseObject({ ...shapeOf(declaration.fields), ...Object.fromEntries(lists) });
}
