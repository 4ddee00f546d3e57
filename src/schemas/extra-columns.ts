import { person } from "./person.ts";
import type { Column } from "./table.ts";

/** Types of columns that a user adds: those whose values can be read from JSON without a setting of the database. */
export const extraTypes = ["text", "integer", "numeric", "boolean", "date"] as const;

/** Columns of `person` for fields that the interface doesn't name, with their types. */
export type ExtraColumns = Readonly<Record<string, (typeof extraTypes)[number]>>;

/** Names that `person` has already. */
export const personColumnNames: readonly string[] = person.columns.map(({ name }) => name);

/** Declares the columns that a user adds to `person`. */
export function extraColumns(extra: ExtraColumns): readonly Column[] {
  return Object.entries(extra).map(([name, type]) => ({
    name,
    type,
    pii: "sensitive",
    doc: `Field \`${name}\` of \`_extra\`, as \`extra_columns\` declares it; null if its value is of another type.`,
  }));
}
