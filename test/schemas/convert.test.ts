import { describe, expect, test } from "vitest";
import {
  converterOf,
  countOf,
  instantText,
  jsonText,
  jsonType,
  microsOf,
  UNEXPECTED,
} from "../../src/schemas/convert.ts";
import { readPartialDate } from "../../src/schemas/derive.ts";
import { readMoneyRange } from "../../src/schemas/person.ts";

/** Converter of a type. */
const convert = (type: "text" | "integer" | "numeric" | "boolean" | "date" | "timestamptz" | "timestamp") =>
  converterOf({ type });

/** Value of JSON text; a number after `raw` keeps its digits. */
const valueOf = (json: string): unknown =>
  json.startsWith("raw ") ? JSON.rawJSON(json.slice(4)) : JSON.parse(json);

/** By type: values as JSON, each with its cell. */
const kept = {
  text: `"": |"  kept as it is ":   kept as it is |"null": null|"Zoë 👩‍👩‍👧 ": Zoë 👩‍👩‍👧 `,
  integer: `0: 0|-0: 0|7.0: 7|1e3: 1000|1e17: 100000000000000000|"-42": -42|"-0": 0|"007": 7|"42.000": 42|
    "1.25e5": 125000|9007199254740992: 9007199254740992|"-9223372036854775808": -9223372036854775808|
    raw 9223372036854775807: 9223372036854775807`,
  numeric: `-0: 0|97.25: 97.25|1e-7: 0.0000001|"12.50": 12.50|"-007.50": -7.50|"0e999": 0|"0e-999": 0|
    "1.${"0".repeat(60)}": 1|raw 123456789012345678.123456789: 123456789012345678.123456789`,
  boolean: `true: true|false: false|"TRUE": true|"False": false|"Y": true|"n": false|"Yes": true|"no": false|
    "t": true|"F": false|"1": true|"0": false|" Y ": true|1: true|0: false|-0: false`,
  date: `"0001-01-01": 0001-01-01|"2024-02-29": 2024-02-29|"1978-04-09T00:00:00": 1978-04-09|
    "1978-04-09T00:00:00Z": 1978-04-09|"1978-04-09 00:00:00.000+00:00": 1978-04-09`,
  timestamptz: `"2026-01-02T03:04:05Z": 2026-01-02T03:04:05+00:00|"2026-01-02T03:04:05z": 2026-01-02T03:04:05+00:00|
    "2026-01-02 03:04:05+00": 2026-01-02T03:04:05+00:00|"2026-01-02T03:04:05": 2026-01-02T03:04:05+00:00|
    "2026-01-02T03:04Z": 2026-01-02T03:04:00+00:00|"2026-01-02T03:04:05.1Z": 2026-01-02T03:04:05.1+00:00|
    "2026-01-02T03:04:05,1234Z": 2026-01-02T03:04:05.1234+00:00|
    "2026-01-02T03:04:05.999999999Z": 2026-01-02T03:04:05.999999+00:00|
    "2026-01-02T03:04:05+0530": 2026-01-01T21:34:05+00:00|"2026-01-02T03:04:05+14:00": 2026-01-01T13:04:05+00:00|
    "2024-03-01T00:00:00+01:00": 2024-02-29T23:00:00+00:00|"0099-06-01T00:00:00+01:00": 0099-05-31T23:00:00+00:00`,
  timestamp: `"2026-03-29T02:30:00": 2026-03-29T02:30:00|"2026-01-02 03:04:05.123456789": 2026-01-02T03:04:05.123456|
    "2026-01-02T03:04:05+02:00": 2026-01-02T01:04:05`,
} as const;

/** By type: values as JSON that it refuses. */
const refused = {
  text: "0|12345|raw 12345678901234567890|true|[]|{}",
  integer: `1.5|"1.5"|"125e-2"|"9223372036854775808"|"-9223372036854775809"|raw 9223372036854775808|1e19|1e300|""|" 1"|"1 "|
    "+1"|"0x10"|"1,000"|"1_000"|"١"|"one"|true|[1]|{}`,
  numeric: `"NaN"|"Infinity"|""|" 1"|"1 "|"1\\n"|"+1"|".5"|"5."|"1.2.3"|"--1"|"1e"|"e5"|"1e5.0"|"1e9999"|"0x10"|"1,000"|
    "1_000"|"$5"|"٣"|"1e38"|"1e-39"|1e300|5e-324|"1${"0".repeat(38)}"|"0.${"0".repeat(38)}1"|raw 1e400|true|[1]|{}`,
  boolean: `""|"2"|"maybe"|"null"|"yes!"|2|-1|0.5|[true]|{}|raw 1`,
  date: `"0000-01-01"|"2023-02-29"|"1900-02-29"|"2024-13-01"|"2024-1-1"|"24-01-01"|"20240101"|"2024-01"|"01/02/2024"|
    "2024-01-01\\n"|" 2024-01-01"|"2024-01-01T05:00:00Z"|"2024-01-01T00:00:00+02:00"|""|20240101|true|[]|{}`,
  timestamptz: `"0000-01-01T00:00:00Z"|"0001-01-01T00:00:00+01:00"|"9999-12-31T23:59:59-01:00"|"2023-02-29T00:00:00Z"|
    "2026-01-02T24:00:00Z"|"2026-01-02T03:60:00Z"|"2026-01-02T03:04:60Z"|"2026-01-02T03:04:05.Z"|
    "2026-01-02T03:04:05.1234567890Z"|"2026-01-02T03:04:05+15:00"|"2026-01-02T03:04:05+01:60"|
    "2026-01-02T03:04:05 Europe/Berlin"|"2026-01-02T03:04:05Zulu"|"2026-01-02"|"2026-01-02T03Z"|
    "+002026-01-02T03:04:05Z"|"yesterday"|""|1767323045|true|[]|{}`,
  timestamp: `"0000-01-01T00:00:00"|"2026-02-30T00:00:00"|"2026-01-02"|""|0|true|[]|{}`,
} as const;

const split = (list: string) => list.split(/\|\s*(?=["[{\d-]|raw |true|false)/u);
const types = ["text", "integer", "numeric", "boolean", "date", "timestamptz", "timestamp"] as const;

describe.each(types)("%s", (type) => {
  test.each(split(kept[type]))("%s", (entry) => {
    const [, json = "", cell] = /^(.*): (.*)$/su.exec(entry) ?? [];
    expect(convert(type)(valueOf(json))).toBe(cell);
  });

  test.each(split(refused[type]))("refuses %s", (json) => {
    expect(convert(type)(valueOf(json))).toBe(UNEXPECTED);
  });
});

test.each<[string, number]>([
  ["1970-01-01T00:00:01", 1_000_000],
  ["1970-01-01T00:00:01.12", 1_120_000],
  ["1970-01-01T00:00:01.0001", 1_000_100],
  ["1969-12-31T23:59:59.999999", -1],
  ["2026-11-21T17:00:37.123456", 1_795_280_437_123_456],
])(
  "microseconds of %s are the same as an answer is read and as a warehouse returns it",
  (instant, micros) => {
    expect(instantText(instant)).toBe(`${instant}+00:00`);
    expect([microsOf(`${instant}+00:00`), microsOf(`${instant}Z`)]).toEqual([micros, micros]);
  },
);

test.each<[string, string, number | null]>([
  ["null", "null", null],
  ["[]", "array", null],
  ["{}", "object", null],
  ['""', "string", null],
  ["true", "boolean", null],
  ["0", "number", 0],
  ["-1", "number", null],
  ["1.5", "number", null],
  ['"12"', "string", 12],
  ['"many"', "string", null],
  ['"1.25e5"', "string", 125_000],
  ["raw 5000.0", "number", 5000],
  ["raw 9007199254740993", "number", null],
])("%s is of the JSON type %s, as a count %s", (json, type, count) => {
  expect([jsonType(valueOf(json)), countOf(valueOf(json))]).toEqual([type, count]);
});

const nested = (levels: number): unknown => JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`);

test.each<[string, unknown, string]>([
  ["an ordinary value", { b: [1, null, "é"], a: { "": true } }, '{"b":[1,null,"é"],"a":{"":true}}'],
  [
    "a number with more digits than a double's",
    [JSON.rawJSON("0.12345678901234567890")],
    "[0.12345678901234567890]",
  ],
  ["a field called __proto__", JSON.parse('{"__proto__":{"a":1}}'), '{"__proto__":{"a":1}}'],
  [
    "the largest double, and numbers that round to zero",
    [JSON.rawJSON("1.7976931348623157e308"), JSON.rawJSON("1e-400")],
    "[1.7976931348623157e308,1e-400]",
  ],
  ["200 levels of nesting", nested(200), `${"[".repeat(200)}${"]".repeat(200)}`],
])("JSON keeps %s", (_, value, text) => {
  expect([jsonText(value), converterOf({ type: "json" })(value)]).toEqual([text, text]);
});

test.each<[string, unknown, string]>([
  [
    "of numbers beyond the range of doubles",
    { huge: JSON.rawJSON("1e999999"), next: [JSON.rawJSON("1.8e308"), JSON.rawJSON("9".repeat(310))] },
    `{"huge":"1e999999","next":["1.8e308","${"9".repeat(310)}"]}`,
  ],
  [
    "of what is nested more deeply",
    { deep: nested(100_000) },
    `{"deep":${"[".repeat(199)}"${"[".repeat(99_801)}${"]".repeat(99_801)}"${"]".repeat(199)}}`,
  ],
  [
    "null for objects nested beyond what JSON.stringify takes",
    { deep: JSON.parse(`${'{"7":'.repeat(20_000)}1${"}".repeat(20_000)}`), next: [1] },
    `{"deep":${'{"7":'.repeat(199)}null${"}".repeat(199)},"next":[1]}`,
  ],
])("JSON has the text %s", (_, value, text) => {
  expect(jsonText(value)).toBe(text);
});

test.each([
  ["2019", "2019-01-01", "year"],
  ["2019-04", "2019-04-01", "month"],
  ["2019-04-09", "2019-04-09", "day"],
  ["0001", "0001-01-01", "year"],
  ["2000-02-29", "2000-02-29", "day"],
])("the date %s is %s with the precision %s", (text, on, precision) => {
  expect(readPartialDate(text)).toEqual([on, precision]);
});

test.each(
  `| |2019 |2019-04\n|0000|0000-01-01|2019-00|2019-13|2019-04-00|2019-02-29|1900-02-29|219|20190|-2019|2019-4|201904|
    2019/04|2019-04-9|2019-04-09T00:00:00Z|2019-Q1|Present|٢٠١٩`.split(/\|(?:\n {4})?/u),
)("%j is no date", (text) => {
  expect(readPartialDate(text)).toEqual([null, null]);
});

test.each([
  ["<$25,000", null, "25000"],
  ["$25,000-$49,999", "25000", "49999"],
  ["$25,000 – $49,999", "25000", "49999"],
  ["$25,000 to $49,999", "25000", "49999"],
  ["25000-49999", "25000", "49999"],
  ["$250,000+", "250000", null],
  ["> $250,000", "250000", null],
  ["$1M or more", "1000000", null],
  ["Over $1,000,000", "1000000", null],
  ["Under $50K", null, "50000"],
  ["less than $50k", null, "50000"],
  ["$500K-$1M", "500000", "1000000"],
  ["-$20,000--$5,000", "-20000", "-5000"],
  ["$5-$5", "5", "5"],
])("the range %s is from %s to %s dollars", (text, min, max) => {
  expect(readMoneyRange(text)).toEqual([min, max]);
});

test.each(
  ` |$25,000|Unknown|$50-99K|$49,999-$25,000|$2,5000-$49,999|€25,000-€49,999|$25,000-|-|+|<|$1.5M-$2M|$1,000,000,000B+|`.split(
    "|",
  ),
)("the range %j is not understood", (text) => {
  expect(readMoneyRange(text)).toEqual([null, null]);
});
