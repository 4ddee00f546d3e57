import { createHash } from "node:crypto";
import { messageOf, type Problem } from "../../errors.ts";
import { quoteLiteral } from "../db/names.ts";
import {
  type InputColumn,
  type InputSource,
  type LookupType,
  type MappedColumn,
  type InputQuery,
  SAMPLE_LENGTH,
  type SampledColumn,
  type SampledRow,
} from "./input.ts";
import { enrichListFields, enrichScalarFields } from "../../schemas/enrich.ts";
import { resolveListFields, resolveScalarFields } from "../../schemas/resolve.ts";
import { suggest } from "../../suggest.ts";

/** Fields of the input record of each endpoint (sections 2.12 to 2.14). */
export const fieldsTaken: Readonly<Record<LookupType, readonly string[]>> = {
  resolve: [...resolveScalarFields, ...resolveListFields],
  validate_emails: ["emails"],
  enrich: [...enrichScalarFields, ...enrichListFields],
};

export const listFields: ReadonlySet<string> = new Set(["emails", "phones"]);

/** White space of all scripts. Blank values are omitted from requests. */
export const BLANKS =
  " \t\n\r\f\v\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff";

/** The value without white space around it. A pattern for its end would start again at every blank. */
export function withoutBlanksAround(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && BLANKS.includes(value.charAt(start))) start++;
  while (end > start && BLANKS.includes(value.charAt(end - 1))) end--;
  return value.slice(start, end);
}

/**
 * Normalizes an address for comparison: trimmed, with the letters A to Z in lower case. Other letters stay
 * unchanged, because databases disagree about their case.
 */
export function normalizedEmail(address: string): string {
  return withoutBlanksAround(address).replaceAll(/[A-Z]/gu, (letter) =>
    String.fromCharCode(letter.charCodeAt(0) + 32),
  );
}

const CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/** Normalizes an address in SQL, like {@link normalizedEmail}. @param trimmed the expression without blanks around it */
export function normalizedAddress(
  expression: string,
  trimmed = `btrim(${expression}, ${quoteLiteral(BLANKS)})`,
): string {
  return `translate(${trimmed}, '${CAPITALS}', '${CAPITALS.toLowerCase()}')`;
}

/**
 * Version of these rules, part of the hash of a job's parameters. Changed rules need a new one, because they change what is
 * sent.
 */
export const NORMALIZATION = "normalize/1";

/** Characters of values without content, such as `-`, `?` and `000-000-0000`. */
const FILLERS = " -_.,;:?!*#/\\+()[]<>0";

const words = (list: string) => list.split(", ");

/** Values of no one, in lower case. */
const PLACEHOLDERS = words(
  "#n/a, (none), n.a., n/a, no email, no name, no phone, not applicable, not available, not provided, tbd, undefined, unknown, " +
    "unspecified",
);

/** Values of no one, except in names: people are called Null, None and Na. */
const NAMELESS = words("na, nan, nil, none, null");

/** Local parts and domains of invented addresses, such as `test@test.com`. */
const ADDRESS_WORDS = words(
  "asdf, invalid, n/a, na, no, no-email, no_email, noemail, nomail, none, null, test, undefined, unknown, xxx",
);

/** Matches phone numbers with enough digits; valid in Postgres and JavaScript. Anchored, because values can be long. */
const PHONE = "^([^0-9]*[0-9]){7}";

const DIGITS = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "0"];

/** Matches numbers of one repeated digit, and 1234567890. */
const PHONE_FILLER = `^[^0-9]*(${[
  ...DIGITS.map((digit) => `${digit}[^${DIGITS.filter((other) => other !== digit).join("")}]*`),
  `(1[^0-9]*)?${DIGITS.map((digit) => `${digit}[^0-9]*`).join("")}`,
].join("|")})$`;

const isPhone = new RegExp(PHONE, "su");

const isPhoneFiller = new RegExp(PHONE_FILLER, "su");

/** Effect of `normalize: true` on a value; `placeholder` and `malformed` values are not sent. */
type Normalized = { readonly text: string } | { readonly dropped: "empty" | "placeholder" | "malformed" };

const isName = (field: string) => field.includes("name");

function placeholdersOf(field: string): readonly string[] {
  return isName(field) ? PLACEHOLDERS : [...PLACEHOLDERS, ...NAMELESS];
}

/** Normalizes a value like the statements of {@link trimmedSql} and {@link isSentSql}. */
export function normalized(field: string, value: string): Normalized {
  const text = field === "emails" ? normalizedEmail(value) : withoutBlanksAround(value);
  if (text === "") return { dropped: "empty" };
  const isFiller = Array.from(text).every((character) => FILLERS.includes(character));
  if (isFiller || placeholdersOf(field).includes(normalizedEmail(text))) return { dropped: "placeholder" };
  if (field === "emails") {
    const [local = "", domain = ""] = text.split("@");
    const [label = ""] = domain.split(".");
    if (ADDRESS_WORDS.includes(local) && ADDRESS_WORDS.includes(label)) return { dropped: "placeholder" };
    if (!/.@./su.test(text)) return { dropped: "malformed" };
  }
  if (field === "phones") {
    if (isPhoneFiller.test(text)) return { dropped: "placeholder" };
    if (!isPhone.test(text)) return { dropped: "malformed" };
  }
  return { text };
}

/** A value without blanks around it; an e-mail address in lower case. */
export function trimmedSql(field: string, expression: string): string {
  return field === "emails" ? normalizedAddress(expression) : `btrim(${expression}, ${quoteLiteral(BLANKS)})`;
}

function anyOf(words: readonly string[]): string {
  return `ANY (ARRAY[${words.map(quoteLiteral).join(", ")}])`;
}

/** Condition for trimmed values that are sent. */
export function isSentSql(field: string, trimmed: string): string {
  const isPlaceholder = `lower(${trimmed} COLLATE "C") = ${anyOf(placeholdersOf(field))}`;
  const isGeneral = `btrim(${trimmed}, ${quoteLiteral(FILLERS)}) <> '' AND NOT ${isPlaceholder}`;
  const matches = (pattern: string) => `${trimmed} COLLATE "C" ~ ${quoteLiteral(pattern)}`;
  if (field === "emails") {
    const label = `split_part(split_part(${trimmed}, '@', 2), '.', 1)`;
    const isInvented = `split_part(${trimmed}, '@', 1) = ${anyOf(ADDRESS_WORDS)} AND ${label} = ${anyOf(ADDRESS_WORDS)}`;
    return `(${isGeneral} AND ${trimmed} LIKE '%_@_%' AND NOT (${isInvented}))`;
  }
  if (field === "phones") return `(${isGeneral} AND ${matches(PHONE)} AND NOT ${matches(PHONE_FILLER)})`;
  return `(${isGeneral})`;
}

/** Keeps the planner from merging a subquery. OFFSET 0, an integer to convert, would also keep it from a parallel plan. */
export const NO_INLINE = "OFFSET '0'";

function blankToNull(expression: string): string {
  return `CASE WHEN btrim(${expression}, '${BLANKS}') <> '' THEN ${expression} END`;
}

function elements({ name }: MappedColumn): string {
  return `unnest(${name}::text[]) WITH ORDINALITY AS u(e, o)`;
}

interface SentColumns {
  /** Each part by its name: a text, or a `text[]` without nulls; blanks as NULL. */
  readonly columns: readonly string[];
  /** FROM item over `raw_row`, with all of its columns. */
  readonly from: string;
}

/** Values of the raw rows in `raw_row` as they are sent. Only here `normalize` applies, before anything is hashed or compared. */
export function sentColumns(
  parts: readonly MappedColumn[],
  { normalize }: Pick<InputSource, "normalize">,
): SentColumns {
  if (!normalize) {
    const columns = parts.map((part) =>
      part.isArray
        ? `ARRAY(SELECT e FROM ${elements(part)} WHERE ${blankToNull("e")} IS NOT NULL ORDER BY o) AS ${part.name}`
        : `${blankToNull(part.name)} AS ${part.name}`,
    );
    return { columns, from: "raw_row" };
  }
  // Not fenced, values would be trimmed once per use.
  const trimmed = parts
    .filter(({ isArray }) => !isArray)
    .map(({ field, name }) => `, ${trimmedSql(field, name)} AS trimmed_${name}`);
  const columns = parts.map((part) => {
    const { field, name } = part;
    if (!part.isArray)
      return `CASE WHEN ${isSentSql(field, `trimmed_${name}`)} THEN trimmed_${name} END AS ${name}`;
    const texts = `SELECT ${trimmedSql(field, "e")} AS e, o FROM ${elements(part)} ${NO_INLINE}`;
    return `ARRAY(SELECT e FROM (${texts}) AS t WHERE ${isSentSql(field, "e")} ORDER BY o) AS ${name}`;
  });
  return { columns, from: `(SELECT raw_row.*${trimmed.join("")} FROM raw_row ${NO_INLINE}) AS trimmed_row` };
}

/** Finds a column of an input by its name, as the database compares names. */
type FindColumn = (name: string) => InputColumn | undefined;

/** Mapped columns that an endpoint takes, by field in alphabetical order: the order of the content hash. */
export function partsOf(input: InputSource, type: LookupType, find: FindColumn): readonly MappedColumn[] {
  const taken = new Set(fieldsTaken[type]);
  const parts: MappedColumn[] = [];
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
  { type, isWithoutValues }: Pick<InputQuery, "type" | "isWithoutValues">,
  find: FindColumn,
): readonly MappedColumn[] {
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

function relationName({ relation }: InputSource): string {
  return "table" in relation ? relation.table.join(".") : "the query of `sql:`";
}

function failureText(verb: string, input: InputSource, error: unknown): string {
  const place = input.connection ? ` in connection ${input.connection.name}` : "";
  // The end of our query may follow the quoted end of the user's SQL.
  const message = messageOf(error).replaceAll(/\s+\)(?="$)/gu, "");
  return `Can't ${verb} ${relationName(input)}${place}: ${message}.`;
}

/** Problem of a table or query that the database can't describe. */
export function unreadable(input: InputSource, error: unknown, hint: string | null): Problem {
  const path = `inputs.${input.name}.${settingOf(input)}`;
  return { path, message: failureText("read", input, error), ...(hint === null ? {} : { hint }) };
}

/** Part of an input's query, with what may be wrong if it is the first that fails. */
interface QueryStage {
  readonly input: InputSource;
  /** Setting with the SQL of this stage; null for the columns themselves. */
  readonly setting: "where" | "order_by" | null;
}

/** An input without its SQL conditions, then with each of them: the first stage that fails has the wrong setting. */
export function queryStages(input: InputSource): readonly QueryStage[] {
  const { where, orderBy } = input;
  return [
    { input: { ...input, where: null, orderBy: null }, setting: null },
    ...(where === null ? [] : [{ input: { ...input, orderBy: null }, setting: "where" as const }]),
    ...(orderBy === null ? [] : [{ input, setting: "order_by" as const }]),
  ];
}

/** Problem of an input that has all columns but can't be queried. */
export function unselectable(stage: QueryStage, error: unknown, hint = hintOf(stage)): Problem {
  const { input, setting } = stage;
  const path = `inputs.${input.name}${setting === null ? "" : `.${setting}`}`;
  return { path, message: failureText("select from", input, error), hint };
}

function hintOf({ input, setting }: QueryStage): string {
  const { where, fields, key } = input;
  if (setting === "order_by") return "Correct it: columns as after ORDER BY in SQL, such as updated_at DESC.";
  if (setting === "where") {
    const equality = where?.includes("==") ? "In SQL, = compares, not ==. " : "";
    return `${equality}Correct it: a condition as after WHERE in SQL, such as country = 'US'.`;
  }
  const isMapped = Object.keys(fields).length > 0;
  return `Check ${isMapped ? "the types of the mapped columns" : `the type of ${key.join(", ")}`}.`;
}

/** Problems of missing columns and misplaced lists. */
export function columnProblems(
  input: InputSource,
  columns: readonly InputColumn[],
  find: FindColumn,
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
        : columnsHint(
            [column],
            columns.map(({ name }) => name),
          ),
    }));
  return [...missing, ...misplacedLists(input, find, path, where)];
}

/** Hint with the names of the columns, first those similar to the missing ones. */
export function columnsHint(missing: readonly string[], names: readonly string[]): string {
  const similar = missing.flatMap((name) => suggest(name, names) ?? []);
  return `${similar.length === 0 ? "" : `Did you mean ${similar.join(", ")}? `}Its columns are: ${names.join(", ")}.`;
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

export function columnsOfRows(
  parts: readonly MappedColumn[],
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
