import { z } from "zod";
import { choice, flag, oneOrMore, ratio, settings } from "./settings.ts";
import {
  columnName,
  connectionName,
  jobName,
  parseTableName,
  searchName,
  sqlText,
  tableName,
} from "./values.ts";

/** Input fields with one text each, named as in the interface (2.12, 2.14). */
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
] as const;

/** Input fields with lists of texts. */
export const listFields = ["emails", "phones"] as const;

/** Field of an input record that a column can be mapped to. */
export type InputField = (typeof scalarFields)[number] | (typeof listFields)[number];

const columns = () => oneOrMore(columnName());

/** `inputs.NAME.fields`: columns by field; one or more for `emails` and `phones`, one for others. */
const fields = z
  .strictObject({
    ...shapeOf(scalarFields, () => columnName().optional()),
    ...shapeOf(listFields, () => columns().optional()),
  })
  .transform((byField) => {
    const given = Object.entries(byField).flatMap(([field, names]) =>
      names === undefined ? [] : [[field, [names].flat()] as const],
    );
    const columnsByField: Readonly<Partial<Record<InputField, readonly string[]>>> =
      Object.fromEntries(given);
    return columnsByField;
  });

function shapeOf<Name extends string, S>(names: readonly Name[], make: () => S): Record<Name, S> {
  return Object.fromEntries(names.map((name) => [name, make()])) as Record<Name, S>; // one entry per name
}

/** A table or view; names exactly as the database stores them. */
export interface TableSource {
  readonly kind: "table";
  /** Null: found by the connection's search_path. */
  readonly schema: string | null;
  readonly table: string;
}

/** A query without a trailing semicolon. */
export interface SqlSource {
  readonly kind: "sql";
  readonly sql: string;
}

/** Members of an audience, by its search. */
export interface NamedSearch {
  readonly kind: "search";
  readonly job: string;
  readonly search: string;
}

const PID = "service_pid";

/** One of `inputs`; rules check that it has either a table, a query or a search, and what else each requires. */
const input = settings({
  table: tableName().optional(),
  sql: sqlText("a SELECT statement").optional(),
  job: jobName({ jobTypes: ["audience_search"] }).optional(),
  search: searchName().optional(),
  connection: connectionName().optional(),
  where: sqlText("a SQL condition").optional(),
  /** Priority of rows when a cap applies. */
  order_by: sqlText("a list of SQL expressions").optional(),
  key: columns().optional(),
  /** True: trims values, lower-cases addresses, and drops placeholders. */
  normalize: flag().default(false),
  on_missing: choice(["keep", "erase"]).default("keep"),
  /** Missing rows / known rows, 0 to 1; no one is erased above it. */
  max_missing_ratio: ratio().default(0.1),
  fields: fields.optional(),
}).transform(({ table, sql, job, search, key, fields: mapped, ...rest }) => {
  const named = table === null ? null : parseTableName(table);
  const source: TableSource | SqlSource | NamedSearch = named
    ? { kind: "table", ...named }
    : job !== null && search !== null
      ? { kind: "search", job, search }
      : { kind: "sql", sql: sql ?? "" };
  return { ...rest, key: key ?? [PID], fields: mapped ?? { [PID]: [PID] }, source };
});

/** `inputs`, by name. */
export const inputs = z.record(z.string(), input);
