import { normalizedAddress, normalizedEmail } from "../erasure/addresses.ts";
import { quoteLiteral } from "../db/names.ts";
import { BLANKS, withoutBlanksAround } from "./input-fields.ts";

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
export type Normalized =
  | { readonly text: string }
  | { readonly dropped: "empty" | "placeholder" | "malformed" };

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
