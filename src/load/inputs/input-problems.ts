import { messageOf, type Problem } from "../../errors.ts";
import type { InputColumn, InputSource } from "./input-source.ts";
import { type FindColumn, misplacedLists } from "./mapped-columns.ts";

/** Setting with the location of an input's rows. */
export function settingOf({ relation }: InputSource): "table" | "sql" {
  return "table" in relation ? "table" : "sql";
}

/** Hint for an input that has all columns but can't be queried. */
function lookAt({ where, orderBy, fields, key }: InputSource): string {
  const types =
    Object.keys(fields).length > 0 ? "the types of the mapped columns" : `the type of ${key.join(", ")}`;
  const settings = [...(where === null ? [] : ["`where`"]), ...(orderBy === null ? [] : ["`order_by`"])];
  return `Check ${[...(settings.length > 0 ? [settings.join(", ")] : []), types].join(" and ")}.`;
}

function relationName({ relation }: InputSource): string {
  return "table" in relation ? relation.table.join(".") : "the query of `sql:`";
}

function failureText(verb: string, input: InputSource, error: unknown): string {
  const place = input.connection ? ` in connection ${input.connection.name}` : "";
  return `Can't ${verb} ${relationName(input)}${place}: ${messageOf(error)}.`;
}

/** Problem of a table or query that the database can't describe. */
export function unreadable(input: InputSource, error: unknown, hint: string | null): Problem {
  const path = `inputs.${input.name}.${settingOf(input)}`;
  return { path, message: failureText("read", input, error), ...(hint === null ? {} : { hint }) };
}

/** Problem of an input that has all columns but can't be queried. */
export function unselectable(input: InputSource, error: unknown, hint = lookAt(input)): Problem {
  return { path: `inputs.${input.name}`, message: failureText("select from", input, error), hint };
}

/** Comparison of a database's columns with the configured ones. */
interface ColumnRules {
  readonly find: FindColumn;
  /** Returns a hint for a missing column. */
  readonly suggest: (name: string, columns: readonly InputColumn[]) => string;
}

/** Problems of missing columns and misplaced lists. */
export function columnProblems(
  input: InputSource,
  columns: readonly InputColumn[],
  { find, suggest }: ColumnRules,
): readonly Problem[] {
  const path = `inputs.${input.name}`;
  const where = relationName(input);
  const wanted = [
    ...input.key.map((column) => ({ at: `${path}.key`, column })),
    ...Object.entries(input.fields).flatMap(([field, names]) =>
      names.map((column) => ({ at: `${path}.fields.${field}`, column })),
    ),
  ];
  const missing = wanted
    .filter(({ column }) => !find(column))
    .map(({ at, column }) => ({
      path: at,
      message: `${where} has no column ${column}.`,
      hint: /,|^-/.test(column)
        ? "Write several columns as a list: [email, work_email]."
        : suggest(column, columns),
    }));
  return [...missing, ...misplacedLists(input, find, path, where)];
}

/** Names of the columns, as a hint. */
export function listColumns(columns: readonly InputColumn[]): string {
  return `Its columns are: ${columns.map(({ name }) => name).join(", ")}.`;
}
