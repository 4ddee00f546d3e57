import { describe, expect, test } from "vitest";
import {
  type Cell,
  converterOf,
  countOf,
  instantText,
  jsonType,
  microsOf,
  UNEXPECTED,
} from "../../src/schemas/convert.ts";
import {
  boolean,
  date,
  integer,
  json,
  numeric,
  text,
  timestamp,
  timestamptz,
} from "../../src/schemas/field.ts";

const toText = converterOf(text("none", "A text."));
const toInteger = converterOf(integer("none", "A whole number."));
const toNumeric = converterOf(numeric("none", "A number."));
const toBoolean = converterOf(boolean("none", "A truth."));
const toDate = converterOf(date("none", "A day."));
const toInstant = converterOf(timestamptz("none", "An instant."));
const toWallTime = converterOf(timestamp("none", "Wall time."));
const toJson = converterOf(json("none", "Anything."));

/** Values of every JSON type, for types that a converter must refuse. */
const noNumbers: readonly unknown[] = [true, false, [], [1], {}, { a: 1 }];
const raw = (source: string): unknown => JSON.rawJSON(source);

describe("text", () => {
  test.each<[unknown, Cell]>([
    ["", ""],
    ["  kept as it is ", "  kept as it is "],
    ["Zoë 👩‍👩‍👧 \u200b", "Zoë 👩‍👩‍👧 \u200b"],
    ["null", "null"],
    ["2009-06", "2009-06"],
  ])("%j stays as it is", (value, expected) => {
    expect(toText(value)).toBe(expected);
  });

  test.each([0, 12345, raw("12345678901234567890"), ...noNumbers])("%j is no text", (value) => {
    expect(toText(value)).toBe(UNEXPECTED);
  });
});

describe("integer", () => {
  test.each<[unknown, Cell]>([
    [0, "0"],
    [-0, "0"],
    [7, "7"],
    [-7, "-7"],
    [7.0, "7"],
    [1e3, "1000"],
    [9007199254740991, "9007199254740991"],
    [9007199254740992, "9007199254740992"],
    [1e17, "100000000000000000"],
    ["42", "42"],
    ["-42", "-42"],
    ["-0", "0"],
    ["007", "7"],
    ["42.0", "42"],
    ["42.000", "42"],
    ["1.25e5", "125000"],
    ["9007199254740993", "9007199254740993"],
    ["9223372036854775807", "9223372036854775807"],
    ["-9223372036854775808", "-9223372036854775808"],
    [raw("9007199254740993"), "9007199254740993"],
    [raw("9223372036854775807"), "9223372036854775807"],
    [raw("-9223372036854775808"), "-9223372036854775808"],
  ])("%j is %s", (value, expected) => {
    expect(toInteger(value)).toBe(expected);
  });

  test.each([
    1.5,
    "1.5",
    "125e-2",
    "9223372036854775808",
    "-9223372036854775809",
    raw("9223372036854775808"),
    1e19,
    1e300,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    "",
    " 1",
    "1 ",
    "+1",
    "0x10",
    "1,000",
    "1_000",
    "١",
    "one",
    ...noNumbers,
  ])("%j is no integer of 64 bits", (value) => {
    expect(toInteger(value)).toBe(UNEXPECTED);
  });
});

describe("numeric", () => {
  test.each<[unknown, Cell]>([
    [0, "0"],
    [-0, "0"],
    [97.25, "97.25"],
    [-0.5, "-0.5"],
    [0.1, "0.1"],
    [402100.55, "402100.55"],
    [1e17, "100000000000000000"],
    [1e-7, "0.0000001"],
    [1.5e-10, "0.00000000015"],
    [123456789.125, "123456789.125"],
    ["12.50", "12.50"],
    ["120000.00", "120000.00"],
    ["0.10", "0.10"],
    ["007.5", "7.5"],
    ["-007.50", "-7.50"],
    ["00", "0"],
    ["-0", "0"],
    ["-0.00", "0.00"],
    ["1.25e5", "125000"],
    ["1.25E+5", "125000"],
    ["1.25e1", "12.5"],
    ["125e-2", "1.25"],
    ["125e-5", "0.00125"],
    ["0e999", "0"],
    ["0e-999", "0"],
    ["1e17", `1${"0".repeat(17)}`],
    ["1e-20", `0.${"0".repeat(19)}1`],
    [`1.${"0".repeat(60)}`, "1"],
    [`${"0".repeat(60)}1`, "1"],
    ["9".repeat(18), "9".repeat(18)],
    [`0.${"9".repeat(20)}`, `0.${"9".repeat(20)}`],
    [raw("0.1234567890123456789"), "0.1234567890123456789"],
    [raw("123456789012345678.123456789"), "123456789012345678.123456789"],
    [raw("-987654321098765432"), "-987654321098765432"],
    [raw("1.2345678901234567890e3"), "1234.567890123456789"],
  ])("%j is %s", (value, expected) => {
    expect(toNumeric(value)).toBe(expected);
  });

  test.each([
    Number.NaN,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    "NaN",
    "Infinity",
    "",
    " ",
    " 1",
    "1 ",
    "1\n",
    "+1",
    ".5",
    "5.",
    "1.2.3",
    "--1",
    "1e",
    "e5",
    "1e5.0",
    "1e9999",
    "0x10",
    "1,000",
    "1_000",
    "$5",
    "٣",
    "1e38",
    "1e-39",
    1e300,
    5e-324,
    `1${"0".repeat(38)}`,
    `0.${"0".repeat(38)}1`,
    raw("1e400"),
    ...noNumbers,
  ])("%j can't be kept exactly as a number", (value) => {
    expect(toNumeric(value)).toBe(UNEXPECTED);
  });
});

describe("boolean", () => {
  test.each<[unknown, Cell]>([
    [true, "true"],
    [false, "false"],
    ["true", "true"],
    ["false", "false"],
    ["TRUE", "true"],
    ["False", "false"],
    ["Y", "true"],
    ["N", "false"],
    ["y", "true"],
    ["n", "false"],
    ["Yes", "true"],
    ["no", "false"],
    ["t", "true"],
    ["F", "false"],
    ["1", "true"],
    ["0", "false"],
    [" Y ", "true"],
    [1, "true"],
    [0, "false"],
    [-0, "false"],
  ])("%j is %s", (value, expected) => {
    expect(toBoolean(value)).toBe(expected);
  });

  test.each(["", "2", "maybe", "null", "yes!", 2, -1, 0.5, Number.NaN, [], [true], {}, raw("1")])(
    "%j is no boolean",
    (value) => {
      expect(toBoolean(value)).toBe(UNEXPECTED);
    },
  );
});

describe("date", () => {
  test.each<[unknown, Cell]>([
    ["1978-04-09", "1978-04-09"],
    ["0001-01-01", "0001-01-01"],
    ["9999-12-31", "9999-12-31"],
    ["2024-02-29", "2024-02-29"],
    ["2000-02-29", "2000-02-29"],
    ["1978-04-09T00:00:00", "1978-04-09"],
    ["1978-04-09T00:00:00Z", "1978-04-09"],
    ["1978-04-09 00:00:00.000+00:00", "1978-04-09"],
  ])("%j is %s", (value, expected) => {
    expect(toDate(value)).toBe(expected);
  });

  test.each([
    "0000-01-01",
    "2023-02-29",
    "1900-02-29",
    "2024-02-30",
    "2024-04-31",
    "2024-00-10",
    "2024-13-01",
    "2024-01-00",
    "2024-01-32",
    "2024-1-1",
    "24-01-01",
    "20240101",
    "2024-01",
    "01/02/2024",
    "2024-01-01\n",
    " 2024-01-01",
    "2024-01-01T05:00:00Z",
    "2024-01-01T00:00:00+02:00",
    "",
    20240101,
    1704067200000,
    ...noNumbers,
  ])("%j is no calendar day", (value) => {
    expect(toDate(value)).toBe(UNEXPECTED);
  });
});

describe("instant", () => {
  test.each<[string, string]>([
    ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05+00:00"],
    ["2026-01-02T03:04:05z", "2026-01-02T03:04:05+00:00"],
    ["2026-01-02T03:04:05+00:00", "2026-01-02T03:04:05+00:00"],
    ["2026-01-02T03:04:05-00:00", "2026-01-02T03:04:05+00:00"],
    ["2026-01-02 03:04:05+00", "2026-01-02T03:04:05+00:00"],
    ["2026-01-02T03:04:05", "2026-01-02T03:04:05+00:00"],
    ["2026-01-02T03:04Z", "2026-01-02T03:04:00+00:00"],
    ["2026-01-02T03:04:05.1Z", "2026-01-02T03:04:05.1+00:00"],
    ["2026-01-02T03:04:05.12Z", "2026-01-02T03:04:05.12+00:00"],
    ["2026-01-02T03:04:05.123Z", "2026-01-02T03:04:05.123+00:00"],
    ["2026-01-02T03:04:05.1234Z", "2026-01-02T03:04:05.1234+00:00"],
    ["2026-01-02T03:04:05.12345Z", "2026-01-02T03:04:05.12345+00:00"],
    ["2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05.123456+00:00"],
    ["2026-01-02T03:04:05.1234567Z", "2026-01-02T03:04:05.123456+00:00"],
    ["2026-01-02T03:04:05.12345678Z", "2026-01-02T03:04:05.123456+00:00"],
    ["2026-01-02T03:04:05.999999999Z", "2026-01-02T03:04:05.999999+00:00"],
    ["2026-01-02T03:04:05.123456+02:00", "2026-01-02T01:04:05.123456+00:00"],
    ["2026-01-01T00:30:00.000001+01:00", "2025-12-31T23:30:00.000001+00:00"],
    ["2026-01-02T03:04:05-08:00", "2026-01-02T11:04:05+00:00"],
    ["2026-01-02T03:04:05+0530", "2026-01-01T21:34:05+00:00"],
    ["2026-01-02T03:04:05+05:45", "2026-01-01T21:19:05+00:00"],
    ["2026-01-02T03:04:05+14:00", "2026-01-01T13:04:05+00:00"],
    ["2024-02-29T23:59:59Z", "2024-02-29T23:59:59+00:00"],
    ["2024-03-01T00:00:00+01:00", "2024-02-29T23:00:00+00:00"],
    ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+00:00"],
    ["0099-06-01T00:00:00+01:00", "0099-05-31T23:00:00+00:00"],
    ["9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999+00:00"],
  ])("%s is %s", (value, expected) => {
    expect(toInstant(value)).toBe(expected);
    expect(instantText(value)).toBe(expected);
  });

  test.each([
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+01:00",
    "9999-12-31T23:59:59-01:00",
    "2023-02-29T00:00:00Z",
    "1900-02-29T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-00-01T00:00:00Z",
    "2026-01-02T24:00:00Z",
    "2026-01-02T03:60:00Z",
    "2026-01-02T03:04:60Z",
    "2026-01-02T03:04:05.Z",
    "2026-01-02T03:04:05.1234567890Z",
    "2026-01-02T03:04:05+15:00",
    "2026-01-02T03:04:05+01:60",
    "2026-01-02T03:04:05 Europe/Berlin",
    "2026-01-02T03:04:05Zulu",
    "2026-01-02",
    "2026-01-02T03Z",
    "+002026-01-02T03:04:05Z",
    "yesterday",
    "",
    1767323045,
    1767323045000,
    ...noNumbers,
  ])("%j is no instant", (value) => {
    expect(toInstant(value)).toBe(UNEXPECTED);
    expect(instantText(value)).toBeNull();
  });
});

describe("microseconds of an instant", () => {
  test.each<[string, number]>([
    ["1970-01-01T00:00:01", 1_000_000],
    ["1970-01-01T00:00:01.5", 1_500_000],
    ["1970-01-01T00:00:01.12", 1_120_000],
    ["1970-01-01T00:00:01.123", 1_123_000],
    ["1970-01-01T00:00:01.0001", 1_000_100],
    ["1970-01-01T00:00:01.12345", 1_123_450],
    ["1970-01-01T00:00:01.123456", 1_123_456],
    ["1969-12-31T23:59:59.999999", -1],
    ["2026-11-21T17:00:37.123456", 1_795_280_437_123_456],
  ])("%s are the same as an answer is read and as a warehouse gives it back", (instant, micros) => {
    expect([microsOf(`${instant}+00:00`), microsOf(`${instant}Z`)]).toEqual([micros, micros]);
  });
});

describe("wall time", () => {
  test.each<[string, string]>([
    ["2026-01-02T03:04:05", "2026-01-02T03:04:05"],
    ["2026-01-02 03:04:05.123456", "2026-01-02T03:04:05.123456"],
    ["2026-01-02T03:04:05.123456789", "2026-01-02T03:04:05.123456"],
    ["2026-03-29T02:30:00", "2026-03-29T02:30:00"],
    ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05"],
    ["2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05"],
  ])("%s is %s", (value, expected) => {
    expect(toWallTime(value)).toBe(expected);
  });

  test.each(["0000-01-01T00:00:00", "2026-02-30T00:00:00", "2026-01-02", "", 0, ...noNumbers])(
    "%j is no wall time",
    (value) => {
      expect(toWallTime(value)).toBe(UNEXPECTED);
    },
  );
});

describe("json", () => {
  test.each<[unknown, string]>([
    [{}, "{}"],
    [{ b: 1, a: [null, true, "x"] }, '{"b":1,"a":[null,true,"x"]}'],
    [[], "[]"],
    ["text", '"text"'],
    [0.1, "0.1"],
    [false, "false"],
    [{ big: raw("12345678901234567890.123456789") }, '{"big":12345678901234567890.123456789}'],
  ])("%j is kept whole", (value, expected) => {
    expect(toJson(value)).toBe(expected);
  });
});

test.each<[unknown, string]>([
  [null, "null"],
  [[], "array"],
  [{}, "object"],
  ["", "string"],
  [1, "number"],
  [raw("12345678901234567890"), "number"],
  [true, "boolean"],
])("the JSON type of %j is %s", (value, expected) => {
  expect(jsonType(value)).toBe(expected);
});

test.each<[unknown, number | null]>([
  [0, 0],
  ["12", 12],
  [raw("1.25e5"), 125_000],
  ["1.25e5", 125_000],
  [raw("5000.0"), 5000],
  [-1, null],
  [1.5, null],
  ["", null],
  ["many", null],
  [true, null],
  [null, null],
  [raw("9007199254740993"), null],
])("a count that is written as %o", (value, count) => {
  expect(countOf(value)).toBe(count);
});
