import type { Problem } from "../../errors.ts";
import type { Reading } from "./foreign-database.ts";
import { fieldsTaken, listFields } from "./input-fields.ts";
import type { InputColumn, InputSource, Part } from "./input-source.ts";
import type { LookupType } from "../lookups/lookup.ts";

/** Finds a column of an input by its name, as the database compares names. */
export type FindColumn = (name: string) => InputColumn | undefined;

/** Mapped columns that an endpoint takes, by field in alphabetical order: the order of the content hash. */
export function partsOf(input: InputSource, type: LookupType, find: FindColumn): readonly Part[] {
  const taken = new Set(fieldsTaken[type]);
  return mappedParts(input, find, { picks: (field) => taken.has(field), prefix: "p" });
}

/** Mapped columns to read; none if only keys are read. */
export function partsRead(
  input: InputSource,
  { type, isWithoutValues }: Pick<Reading, "type" | "isWithoutValues">,
  find: FindColumn,
): readonly Part[] {
  return isWithoutValues ? [] : partsOf(input, type, find);
}

function mappedParts(
  input: InputSource,
  find: FindColumn,
  { picks, prefix }: { readonly picks: (field: string) => boolean; readonly prefix: string },
): readonly Part[] {
  const parts: Part[] = [];
  for (const field of Object.keys(input.fields).toSorted()) {
    if (!picks(field)) continue;
    for (const [index, column] of (input.fields[field] ?? []).entries()) {
      const isArray = find(column)?.isArray ?? false;
      parts.push({ field, index, column, isArray, name: `${prefix}${parts.length}` });
    }
  }
  return parts;
}

/** Problems of list columns mapped to single-value fields. */
export function misplacedLists(
  input: InputSource,
  find: FindColumn,
  path: string,
  where: string,
): readonly Problem[] {
  return Object.entries(input.fields)
    .filter(([field]) => !listFields.has(field))
    .flatMap(([field, names]) =>
      names
        .filter((name) => find(name)?.isArray)
        .map((name) => ({
          path: `${path}.fields.${field}`,
          message: `${where} has a list of values in column ${name}, but ${field} takes a single value.`,
          hint: "Map a column of single values; only emails and phones take lists.",
        })),
    );
}
