import { z } from "zod";
import { type Field, type Fields, shapeOf } from "./field.ts";

/** A nested array of objects, flattened to a child table, one row an element, `position` its 0-based index. */
export interface ListDeclaration {
  readonly fields: Fields;
  /** The child table; several lists may share one, told apart by `discriminator`. */
  readonly table: string;
  /** The constant in the child table's discriminator column (`email_type`), where it has one. */
  readonly discriminator?: string;
}

/** An object of the interface: its scalar fields and its nested lists, both by the interface's own names. */
export interface RecordDeclaration {
  readonly fields: Fields;
  readonly lists: Readonly<Record<string, ListDeclaration>>;
}

/** The zod schema of a declared record: declared fields checked, unknown ones let through. Lists may be null. */
export function zodOf(declaration: RecordDeclaration): z.ZodObject {
  const lists = Object.entries(declaration.lists).map(([name, list]) => {
    return [name, z.array(z.looseObject(shapeOf(list.fields))).nullable()] as const;
  });
  return z.looseObject({ ...shapeOf(declaration.fields), ...Object.fromEntries(lists) });
}

/** True when the field takes the looser spellings of a boolean. */
export function isLoose(field: Field): boolean {
  return "loose" in field;
}
