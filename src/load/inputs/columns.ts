import { createHash } from "node:crypto";
import { messageOf, type Problem } from "../../errors.ts";
import {
  type InputColumn,
  type InputSource,
  type LookupType,
  type Part,
  type Reading,
  SAMPLE_LENGTH,
  type SampledColumn,
  type SampledRow,
} from "./input.ts";
import { fieldsTaken, listFields, NORMALIZATION, withoutBlanksAround } from "./values.ts";

/** Finds a column of an input by its name, as the database compares names. */
type FindColumn = (name: string) => InputColumn | undefined;

/** Mapped columns that an endpoint takes, by field in alphabetical order: the order of the content hash. */
export function partsOf(input: InputSource, type: LookupType, find: FindColumn): readonly Part[] {
  const taken = new Set(fieldsTaken[type]);
  const parts: Part[] = [];
  for (const field of Object.keys(input.fields).toSorted()) {
    if (!taken.has(field)) continue;
    for (const column of input.fields[field] ?? []) {
      const isArray = find(column)?.isArray ?? false;
      parts.push({ field, column, isArray, name: `p${parts.length}` });
    }
  }
  return parts;
}

/** Mapped columns to read; none if only keys are read. */
export function partsRead(
  input: InputSource,
  { type, isWithoutValues }: Pick<Reading, "type" | "isWithoutValues">,
  find: FindColumn,
): readonly Part[] {
  return isWithoutValues ? [] : partsOf(input, type, find);
}

/** Problems of list columns mapped to single-value fields. */
function misplacedLists(
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

/** Version of the rule that hashes a content, part of every fingerprint. Another rule makes every content a new one, which is paid for again. */
const HASH_VERSION = 1;
/** Version of the fingerprint. A new one makes every row compare its content hash once, and none due. */
const VERSION = "person-etl/fingerprint/1";

/** Columns that a fingerprint covers: all mapped ones, so that the jobs of an input share it. */
export function fingerprintColumns({ fields }: Pick<InputSource, "fields">): readonly string[] {
  return [...new Set(Object.values(fields).flat())].toSorted();
}

/**
 * SHA-256 of everything besides its values that determines a row's content hashes. Part of each fingerprint, so that
 * fingerprints made under another mapping differ.
 * @param lists the mapped columns with lists
 */
export function fingerprintScope(
  { fields, normalize }: Pick<InputSource, "fields" | "normalize">,
  lists: readonly string[],
): Buffer {
  const mapping = Object.entries(fields).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const scope = [VERSION, HASH_VERSION, fieldsTaken, normalize ? NORMALIZATION : null, mapping, lists];
  return createHash("sha256").update(JSON.stringify(scope)).digest();
}

/** Arranges sampled rows by column. */
export function columnsOfRows(
  parts: readonly Part[],
  rows: readonly SampledRow[],
  typeNameOf: (column: string) => string,
): readonly SampledColumn[] {
  return parts.map(({ field, column, isArray }, index) => ({
    field,
    column,
    isArray,
    typeName: typeNameOf(column),
    values: rows.map((row) => {
      const value = row[index] ?? null;
      if (value === null) return [];
      const texts = typeof value === "string" ? [value] : value.filter((text) => text !== null);
      // The last character that was read can be a blank between two words.
      return texts.map((text) => (text.length < SAMPLE_LENGTH ? text : withoutBlanksAround(text)));
    }),
  }));
}
