import type { Random } from "../support/seeded-random.ts";

/** Numbers as JSON text, at and beyond the limits of databases and doubles. */
const NUMBERS = [
  "0",
  "-0",
  "-0.0",
  "1e0",
  "1E+2",
  "-1e-7",
  "9007199254740993",
  "-9223372036854775808",
  "9223372036854775808",
  "123456789012345678901234567890",
  "0.1000000000000000055511151231257827021181583404541015625",
  "1e308",
  "1e309",
  "-1e400",
  "1e-400",
  "5e-324",
  "1e999999999",
  "-1e-999999999",
  "0e999999999",
  "1.7976931348623157e308",
  "2147483648",
  "9".repeat(400),
  `0.${"3".repeat(500)}`,
  `1${"0".repeat(131_100)}`,
  "99999999999999999999999999999999999999.5",
] as const;

/** Texts that are difficult for escaping, encodings, COPY, indexes and date parsers. */
const TEXTS = [
  "",
  " ",
  "\\N",
  "\\.",
  "\\",
  "\t",
  "\n",
  "\r\n",
  "\u0000",
  "a\u0000b",
  "\ud83d",
  "\ude80\ud83d",
  "😀",
  "e\u0301",
  "\u2028\u2029",
  "\ufeff",
  "\uffff",
  "\u0007\u001f\u007f\u0085",
  '"',
  "'; DROP TABLE person; --",
  "null",
  "NaN",
  "Infinity",
  "-Infinity",
  "1e5",
  "0x1F",
  "1_000",
  "१२३",
  "true",
  "Y",
  "N",
  "9999-12-31T23:59:59.999999999Z",
  "0000-00-00",
  "0001-01-01T00:00:00+14:59",
  "-infinity",
  "infinity",
  "2024-02-30",
  "2023-02-29T00:00:00Z",
  "4713-01-01 BC",
  "2024-06-30T23:59:60Z",
  "24:00:00",
  "epoch",
  "now",
  "{}",
  "[]",
  "\\x00",
  "\\u0000",
  "p-",
  "%s%n",
  "${jndi}",
  "‮RTL",
  "ﷺ",
  "\ud800\udc00",
] as const;

const LONG_CHARACTERS = ["x", "\u0000", "é", "😀", "\\", "\ud800", "\n", "\u2028"] as const;

function nested(depth: number, isObject: boolean, core: string): string {
  return isObject
    ? `${'{"a":'.repeat(depth)}${core}${"}".repeat(depth)}`
    : `${"[".repeat(depth)}${core}${"]".repeat(depth)}`;
}

/** Nesting deeper than in any honest answer: mostly around the limits of databases, sometimes far beyond. */
export function deepJson(random: Random): string {
  const depth = random.pick([
    3,
    40,
    199,
    200,
    201,
    250,
    1000,
    3000,
    6000,
    random.chance(0.1) ? 200_000 : 500,
  ]);
  return nested(
    depth,
    random.chance(0.5),
    random.pick(["1", '"x"', "", "1e400", '"\\u0000"']).replace(/^$/u, "null"),
  );
}

/** A number as JSON text. */
export function oddNumber(random: Random): string {
  return random.pick(NUMBERS);
}

/** A text, sometimes a long one. */
export function oddText(random: Random): string {
  if (!random.chance(0.05)) return random.pick(TEXTS);
  const length = random.pick([100, 3000, 9000, random.chance(0.05) ? 1_500_000 : 70_000]);
  return random.pick(LONG_CHARACTERS).repeat(length);
}

/** Names that break code which uses objects as maps, or columns by name. */
const NAMES = [
  "__proto__",
  "constructor",
  "toString",
  "hasOwnProperty",
  "",
  "0",
  "-1",
  "length",
  "record_id ",
  "RECORD_ID",
  "a.b",
  "a[]",
  "service_pid\u0000",
  "\ud800",
  "_extra",
  "_run_id",
  "results",
  "is_match",
  "x".repeat(5000),
  "then",
  "toJSON",
  "rawJSON",
  "$ref",
] as const;

/** A field's name. */
export function oddName(random: Random): string {
  return random.pick(NAMES);
}

/** A value of any JSON type as JSON text. */
export function oddJson(random: Random): string {
  const choice = random.below(8);
  if (choice === 0) return random.pick(["null", "true", "false"]);
  if (choice === 1) return oddNumber(random);
  if (choice <= 3) return JSON.stringify(oddText(random));
  if (choice === 4) return deepJson(random);
  if (choice === 5)
    return random.pick(["{}", "[]", "[{}]", "[null]", "[[]]", '[""]', "[{},null,1]", '{"a":null}']);
  if (choice === 6) return `[${Array.from({ length: random.below(6) }, () => oddJson(random)).join(",")}]`;
  const members = Array.from(
    { length: random.below(4) },
    () => `${JSON.stringify(oddName(random))}:${oddJson(random)}`,
  );
  return `{${members.join(",")}}`;
}
