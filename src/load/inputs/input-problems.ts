import { FixConfigurationError, messageOf, type Problem } from "../../errors.ts";
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

/** Problem of a cursor that is not a time: low numbers may be committed after higher ones. */
function cursorProblem({ name, cursor }: InputSource, typeName: string): Problem {
  return {
    path: `inputs.${name}.cursor`,
    message: `${cursor?.column ?? ""} is of type ${typeName}, but a cursor must be a date or a time`,
    hint: "Remove `cursor`: then every row is compared.",
  };
}

/** Problems of the cursor's type. @param temporal matches the types of dates and times */
function cursorProblems(
  input: InputSource,
  typeName: string | undefined,
  temporal: RegExp,
): readonly Problem[] {
  return typeName === undefined || temporal.test(typeName) ? [] : [cursorProblem(input, typeName)];
}

/** Throws unless the cursor is a date or a time. */
export function requireTemporal(input: InputSource, typeName: string | undefined, temporal: RegExp): void {
  const problems = cursorProblems(input, typeName, temporal);
  if (problems.length === 0) return;
  throw new FixConfigurationError("bad_cursor", `The cursor of input ${input.name} can't be used.`, problems);
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
export interface ColumnRules {
  readonly find: FindColumn;
  /** Matches the types of dates and times. */
  readonly temporal: RegExp;
  /** Returns a hint for a missing column. */
  readonly suggest: (name: string, columns: readonly InputColumn[]) => string;
}

/** Problems of missing columns, misplaced lists and the cursor's type. */
export function columnProblems(
  input: InputSource,
  columns: readonly InputColumn[],
  { find, temporal, suggest }: ColumnRules,
): readonly Problem[] {
  const path = `inputs.${input.name}`;
  const where = relationName(input);
  const { cursor } = input;
  const wanted = [
    ...input.key.map((column) => ({ at: `${path}.key`, column })),
    ...(cursor ? [{ at: `${path}.cursor`, column: cursor.column }] : []),
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
  return [
    ...missing,
    ...misplacedLists(input, find, path, where),
    ...cursorProblems(input, cursor ? find(cursor.column)?.typeName : undefined, temporal),
  ];
}

/** Names of the columns, as a hint. */
export function listColumns(columns: readonly InputColumn[]): string {
  return `Its columns are: ${columns.map(({ name }) => name).join(", ")}.`;
}
