import { describe, expect, test } from "vitest";
import { converterOf, instantText, UNEXPECTED } from "../../src/schemas/convert.ts";
import { readPartialDate } from "../../src/schemas/derive.ts";
import { readMoneyRange } from "../../src/schemas/person.ts";
import * as fc from "../support/fast-check.ts";

const types = ["text", "integer", "numeric", "boolean", "date", "timestamptz", "timestamp", "json"] as const;
const convertTo = (type: (typeof types)[number]) => converterOf({ type });

/** `-12.5e3` as (-125, 2): the value is digits × 10^exponent. Independent of the converter on purpose. */
function readDecimal(source: string): { digits: bigint; exponent: number } {
  const [mantissa = "", exponentText = "0"] = source.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  return { digits: BigInt(`${whole}${fraction}`), exponent: Number(exponentText) - fraction.length };
}

function isSameNumber(a: string, b: string): boolean {
  const [x, y] = [readDecimal(a), readDecimal(b)];
  const lowest = Math.min(x.exponent, y.exponent);
  return x.digits * 10n ** BigInt(x.exponent - lowest) === y.digits * 10n ** BigInt(y.exponent - lowest);
}

/** Plain decimal text without leading zeros or a sign before zero. */
function isPlain(cell: string): boolean {
  return /^-?(0|[1-9]\d*)(\.\d+)?$/.test(cell) && !/^-[0.]+$/.test(cell);
}

/** True if it fits into 18 digits before and 20 after the point. */
function fits(source: string): boolean {
  let { digits, exponent } = readDecimal(source);
  if (digits < 0n) digits = -digits;
  if (digits === 0n) return true;
  while (digits % 10n === 0n) [digits, exponent] = [digits / 10n, exponent + 1];
  return String(digits).length + exponent <= 18 && exponent >= -20;
}

const digits = (minLength: number, maxLength: number) =>
  fc.string({ unit: fc.constantFrom(..."0123456789".split("")), minLength, maxLength });

const decimalLiteral = fc
  .record({
    sign: fc.constantFrom("", "-"),
    whole: digits(1, 45),
    fraction: fc.option(digits(1, 45), { nil: null }),
    exponent: fc.option(fc.tuple(fc.constantFrom("e", "E"), fc.integer({ min: -60, max: 60 })), {
      nil: null,
    }),
  })
  .map(
    ({ sign, whole, fraction, exponent }) =>
      `${sign}${whole}${fraction === null ? "" : `.${fraction}`}${exponent === null ? "" : exponent.join("")}`,
  );

describe("numbers", () => {
  test("any decimal literal is kept exactly, or refused because 18 digits before and 20 after the point can't hold it", () => {
    const convert = convertTo("numeric");
    fc.assert(
      fc.property(decimalLiteral, (literal) => {
        const cell = convert(literal);
        const isExact = typeof cell === "string" && isPlain(cell) && isSameNumber(literal, cell);
        expect(fits(literal) ? isExact : cell === UNEXPECTED).toBe(true);
      }),
      { numRuns: 2000 },
    );
  });

  test("any JSON number within these digits reads back as the same double", () => {
    const convert = convertTo("numeric");
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (number) => {
        const cell = convert(number);
        const isSame = typeof cell === "string" && Number(cell) === number;
        expect(fits(String(number)) ? isSame : cell === UNEXPECTED).toBe(true);
      }),
      { numRuns: 2000 },
    );
  });

  test("any whole number of 64 bits is kept exactly, as a number or as text, any other is refused", () => {
    const convert = convertTo("integer");
    const around = fc.oneof(
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
      fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }),
    );
    fc.assert(
      fc.property(around, (whole) => {
        const expected = BigInt.asIntN(64, whole) === whole ? String(whole) : UNEXPECTED;
        expect(convert(String(whole))).toBe(expected);
        expect(convert(JSON.rawJSON(String(whole)))).toBe(expected);
      }),
    );
  });
});

/** Wall time of an instant at an offset, as a service there writes it. */
function writeInstant(ms: number, micros: string, offsetMinutes: number): string {
  const wall = new Date(ms + offsetMinutes * 60_000).toISOString().slice(0, -1);
  const minutes = Math.abs(offsetMinutes);
  const zone = [Math.floor(minutes / 60), minutes % 60].map((n) => String(n).padStart(2, "0")).join(":");
  return `${wall}${micros}${offsetMinutes < 0 ? "-" : "+"}${zone}`;
}

const milliseconds = fc.integer({
  min: Date.parse("0001-01-03T00:00:00Z"),
  max: Date.parse("9999-12-29T00:00:00Z"),
});

const padded = (max: number, width: number) =>
  fc.integer({ min: 0, max }).map((n) => String(n).padStart(width, "0"));

describe("times", () => {
  test("the six digits of the fraction are kept at any offset", () => {
    fc.assert(
      fc.property(milliseconds, digits(3, 3), fc.integer({ min: -840, max: 840 }), (ms, micros, offset) => {
        const utc = new Date(ms).toISOString().slice(0, -1);
        expect(instantText(writeInstant(ms, micros, offset))).toBe(`${utc}${micros}+00:00`);
      }),
      { numRuns: 1000 },
    );
  });

  test("a day is taken exactly when the calendar has it", () => {
    const convert = convertTo("date");
    fc.assert(
      fc.property(padded(9999, 4), padded(13, 2), padded(32, 2), (year, month, day) => {
        const value = `${year}-${month}-${day}`;
        const parsed = new Date(`${value}T00:00:00Z`);
        const isDay =
          year !== "0000" && !Number.isNaN(parsed.getTime()) && parsed.toISOString().startsWith(value);
        expect(convert(value)).toBe(isDay ? value : UNEXPECTED);
        expect(readPartialDate(value)).toEqual(isDay ? [value, "day"] : [null, null]);
        const [on, precision] = readPartialDate(value.slice(0, 7));
        expect(!isDay || (on === `${value.slice(0, 7)}-01` && precision === "month")).toBe(true);
      }),
      { numRuns: 2000 },
    );
  });
});

test("converting never throws, and gives text or refuses, for any JSON value and any type", () => {
  const nearMisses = fc.oneof(
    decimalLiteral,
    fc.date({ noInvalidDate: true }).map((d) => d.toISOString()),
  );
  fc.assert(
    fc.property(fc.oneof(fc.jsonValue(), nearMisses, decimalLiteral.map(rawOrText)), (value) => {
      for (const type of types) {
        const cell = convertTo(type)(value);
        expect(cell === UNEXPECTED || typeof cell === "string").toBe(true);
      }
    }),
    { numRuns: 1000 },
  );
});

/** JSON has no leading zeros; such a literal stays text. */
function rawOrText(literal: string): unknown {
  return /^-?0\d/.test(literal) ? literal : JSON.rawJSON(literal);
}

test("no text throws where dates or amounts are read; bounds have at most 18 digits and are in order", () => {
  const amounts = fc.stringMatching(
    /^[<>]?\$?[\d,]{0,25}[kKmMbB+]?(?: ?(?:-|to) ?\$?[\d,]{0,25}[kKmMbB]?)?$/,
  );
  fc.assert(
    fc.property(fc.oneof(fc.string(), amounts, fc.stringMatching(/^[\d-]{0,12}$/)), (text) => {
      const bounds = readMoneyRange(text).filter((bound) => bound !== null);
      expect(bounds.every((bound) => /^-?\d{1,18}$/.test(bound))).toBe(true);
      expect(BigInt(bounds[0] ?? 0) <= BigInt(bounds.at(-1) ?? 0)).toBe(true);
      const [on, precision] = readPartialDate(text);
      expect(on === null).toBe(precision === null);
    }),
    { numRuns: 1000 },
  );
});
