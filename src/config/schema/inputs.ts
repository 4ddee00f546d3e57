import { z } from "zod";
import { enrichListFields, enrichScalarFields } from "../../schemas/enrich.ts";
import type { NestedProblem } from "../problems.ts";
import { byName, choice, flag, oneOrMore, ratio, setEntries, settings } from "./settings.ts";
import {
  columnName,
  connectionName,
  jobName,
  parseTableName,
  searchName,
  sqlText,
  tableName,
} from "./values.ts";

/** Input fields with one text each, and those with several: `enrich` takes all of them. */
export const [scalarFields, listFields] = [enrichScalarFields, enrichListFields];

/** Field of an input record that a column can be mapped to. */
export type InputField = (typeof scalarFields)[number] | (typeof listFields)[number];

const columns = () => oneOrMore(columnName());

/** `inputs.NAME.fields`: columns by field; one or more for `emails` and `phones`, one for others. */
const fields = z
  .strictObject({
    ...shapeOf(scalarFields, () => columnName().optional()),
    ...shapeOf(listFields, () => columns().optional()),
  })
  .refine((byField) => Object.keys(byField).length > 0, {
    // An unknown field is a problem of its own.
    when: ({ issues }) => issues.length === 0,
    params: {
      problem: {
        message: "maps no columns",
        hint: "for example { first_name: first_name, last_name: last_name, emails: [email] }",
      },
    },
  })
  .transform((byField): Readonly<Partial<Record<InputField, readonly string[]>>> => {
    return Object.fromEntries(setEntries(byField).map(([field, names]) => [field, [names].flat()]));
  });

function shapeOf<Name extends string, S>(names: readonly Name[], make: () => S): Record<Name, S> {
  return Object.fromEntries(names.map((name) => [name, make()])) as Record<Name, S>; // one entry per name
}

/** A table or view; names exactly as the database stores them. */
export interface TableSource {
  readonly kind: "table";
  /** Null: found by the connection's search_path. */
  readonly schema: string | null;
  /** Name, or a path, pattern or address of files. */
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

/** Settings that only the members of an audience have by default. */
const REQUIRED = {
  key: "the name of a column, or a list of at least one",
  fields: "a mapping of keys to values",
};

/** An input has either a table, a query, or the job and search of an audience, whose members are read by their PID. */
function sourceRule(given: Readonly<Record<string, unknown>>): readonly NestedProblem[] {
  const has = (name: string) => given[name] !== undefined;
  if (has("job") || has("search")) {
    const conflict = {
      message: "conflicts with job",
      hint: "the members of an audience are read by their PID; remove the line",
    };
    const hint = "add the audience_search job that has this search";
    return [
      ...(has("job") ? [] : [{ path: ["job"], message: "is missing", hint }]),
      ...["table", "sql", "connection", "key", "fields"]
        .filter(has)
        .map((name) => ({ path: [name], ...conflict })),
    ];
  }
  const absent = Object.entries(REQUIRED).flatMap(([name, expects]) =>
    has(name) ? [] : [{ path: [name], message: "is missing", hint: `it must be ${expects}` }],
  );
  if (has("table") && has("sql")) {
    return [...absent, { path: ["sql"], message: "conflicts with table", hint: "keep only one" }];
  }
  if (has("table") || has("sql")) return absent;
  const hint = "add a table (schema.table), sql: SELECT …, or the job and search of an audience";
  return [...absent, { path: ["table"], message: "is missing", hint }];
}

const input = settings(
  {
    table: tableName().optional(),
    sql: sqlText("a SELECT statement").optional(),
    job: jobName({ jobTypes: ["audience_search"] }).optional(),
    search: searchName().optional(),
    connection: connectionName().optional(),
    where: sqlText("a SQL condition").optional(),
    order_by: sqlText("a list of SQL expressions").optional(),
    key: columns().optional(),
    normalize: flag().default(false),
    on_missing: choice(["keep", "erase"]).default("keep"),
    max_missing_ratio: ratio().default(0.1),
    fields: fields.optional(),
  },
  sourceRule,
).transform(({ table, sql, job, search, key, fields: mapped, ...rest }) => {
  const source: (TableSource & { readonly text: string }) | SqlSource | NamedSearch =
    table !== null
      ? { kind: "table", text: table, ...(parseTableName(table) ?? { schema: null, table }) }
      : job !== null && search !== null
        ? { kind: "search", job, search }
        : { kind: "sql", sql: sql ?? "" };
  return { ...rest, key: key ?? [PID], fields: mapped ?? { [PID]: [PID] }, source };
});

export const inputs = byName(input);
