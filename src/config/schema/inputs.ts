import { z } from "zod";
import type { InputField } from "../config.ts";
import { choice, oneOrMore, ratio } from "./described.ts";
import { columnName, duration, nameOf, sqlText, tableName } from "./values.ts";

/** Input fields that are one text each (interface 2.12, 2.14). */
export const scalarFields = [
  "service_pid",
  "linkedin_url",
  "first_name",
  "middle_name",
  "last_name",
  "full_name",
  "name_suffix",
  "full_address",
  "address_line_1",
  "address_line_2",
  "city",
  "state",
  "zipcode",
] as const satisfies readonly InputField[];

/** Input fields that are lists of texts. */
export const listFields = ["emails", "phones"] as const satisfies readonly InputField[];

const columns = () => oneOrMore(columnName());

/** `inputs.NAME.fields`: which column is sent as which field. */
export const fields = z.strictObject({
  ...shapeOf(scalarFields, () => columnName().optional()),
  ...shapeOf(listFields, () => columns().optional()),
});

function shapeOf<Name extends string, S>(names: readonly Name[], make: () => S): Record<Name, S> {
  return Object.fromEntries(names.map((name) => [name, make()])) as Record<Name, S>; // one entry per name
}

/** One of `inputs`. */
export const input = z.strictObject({
  table: tableName().optional(),
  sql: sqlText("a SELECT statement").optional(),
  connection: nameOf("a connection").optional(),
  where: sqlText("a SQL condition").optional(),
  order_by: sqlText("a list of SQL expressions").optional(),
  key: columns(),
  cursor: columnName().optional(),
  cursor_overlap: duration("0s").default("1h"),
  on_missing: choice(["keep", "flag", "erase"]).default("keep"),
  max_missing_ratio: ratio().default(0.1),
  fields,
});

/** `inputs`, by name. */
export const inputs = z.record(z.string(), input);

/** One of `inputs` once the schema has passed it. */
export type InputDocument = z.output<typeof input>;
