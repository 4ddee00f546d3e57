import { quoteLiteral } from "../db/names.ts";
import type { InputSource, Part, LookupType } from "./input.ts";
import { enrichListFields, enrichScalarFields } from "../../schemas/enrich.ts";
import { resolveListFields, resolveScalarFields } from "../../schemas/resolve.ts";

/** Fields of the input record of each endpoint (sections 2.12 to 2.14). */
export const fieldsTaken: Readonly<Record<LookupType, readonly string[]>> = {
  resolve: [...resolveScalarFields, ...resolveListFields],
  validate_emails: ["emails"],
  enrich: [...enrichScalarFields, ...enrichListFields],
};

/** Fields that hold lists. */
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

/** Normalizes an address in SQL, like {@link normalizedEmail}. */
export function normalizedAddress(expression: string): string {
  const trimmed = `btrim(${expression}, ${quoteLiteral(BLANKS)})`;
  return `translate(${trimmed}, '${CAPITALS}', '${CAPITALS.toLowerCase()}')`;
}

/**
 * Version of these rules, part of the hash of a job's parameters. Changed rules need a new one, because they change what is
 * sent.
 */
export const NORMALIZATION = "normalize/1";

/** Characters of values without content, such as `-`, `?` and `000-000-0000`. */
const FILLERS = " -_.,;:?!*#/\\+()[]<>0";

/** Values of no one, in lower case. */
const PLACEHOLDERS = [
  "#n/a",
  "(none)",
  "n.a.",
  "n/a",
  "no email",
  "no name",
  "no phone",
  "not applicable",
  "not available",
  "not provided",
  "tbd",
  "undefined",
  "unknown",
  "unspecified",
];

/** Values of no one, except in names: people are called Null, None and Na. */
const NAMELESS = ["na", "nan", "nil", "none", "null"];

/** Local parts and domains of invented addresses, such as `test@test.com`. */
const ADDRESS_WORDS = [
  "asdf",
  "invalid",
  "n/a",
  "na",
  "no",
  "no-email",
  "no_email",
  "noemail",
  "nomail",
  "none",
  "null",
  "test",
  "undefined",
  "unknown",
  "xxx",
];

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

/** Placeholders of a field, in lower case. */
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
export const FENCE = "OFFSET '0'";

/** The expression, or NULL if it is empty or blank. */
function blankToNull(expression: string): string {
  return `CASE WHEN btrim(${expression}, '${BLANKS}') <> '' THEN ${expression} END`;
}

function elements({ name }: Part): string {
  return `unnest(${name}::text[]) WITH ORDINALITY AS u(e, o)`;
}

/** Values of raw rows as they are sent. */
interface SentValues {
  /** Each part by its name: a text, or a `text[]` without nulls; blanks as NULL. */
  readonly columns: readonly string[];
  /** FROM item over `raw_row`, with all of its columns. */
  readonly from: string;
}

/** Values of the raw rows in `raw_row` as they are sent. Only here `normalize` applies, before anything is hashed or compared. */
export function sentValues(
  parts: readonly Part[],
  { normalize }: Pick<InputSource, "normalize">,
): SentValues {
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
    const texts = `SELECT ${trimmedSql(field, "e")} AS e, o FROM ${elements(part)} ${FENCE}`;
    return `ARRAY(SELECT e FROM (${texts}) AS t WHERE ${isSentSql(field, "e")} ORDER BY o) AS ${name}`;
  });
  return { columns, from: `(SELECT raw_row.*${trimmed.join("")} FROM raw_row ${FENCE}) AS trimmed_row` };
}
