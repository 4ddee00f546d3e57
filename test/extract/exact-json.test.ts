import { describe, expect, it } from "vitest";
import { parseExact } from "../../src/extract/json.ts";
import * as fc from "../support/fast-check.ts";

describe("numbers", () => {
  it.each(["9007199254740993", "1e400", "1e-400", "1234567890123456.10"])("%s keeps its digits", (source) => {
    const parsed = parseExact(`{"results":[{"a":${source}}]}`);
    expect(JSON.stringify(parsed)).toBe(`{"results":[{"a":${source}}]}`);
  });

  it.each([
    ["1.25e5", 125_000],
    ["87.35000000000001", 87.35000000000001],
    ["9007199254740992", 9_007_199_254_740_992],
    ["0.30", 0.3],
    ["-12", -12],
    ["1e-007", 1e-7],
    ["0.000000000000000000", 0],
  ])("%s is a plain number", (source, expected) => {
    expect(parseExact(`[${source}]`)).toEqual([expected]);
  });

  it("digits inside text are text", () => {
    expect(parseExact('["x:12345678901234567890,12345678901234567890"]')).toEqual([
      "x:12345678901234567890,12345678901234567890",
    ]);
  });

  it("of 16 digits keep them at any position of the text", () => {
    for (let i = 0; i < 40; i++) {
      const text = `{"${"x".repeat(i)}":9007199254740993,"y":"z"}`;
      expect(JSON.stringify(parseExact(text))).toBe(text);
    }
  });

  it.each(["[1e400]", '{"a":1e400}', "[1e400,1]", "[1e400\n]"])(
    "with a long exponent keep it at the end of %j",
    (text) => {
      expect(JSON.stringify(parseExact(text))).toBe(text.replace("\n", ""));
    },
  );

  it("of any length and magnitude equal what was sent", () => {
    const decimals = fc
      .tuple(fc.boolean(), fc.bigInt({ min: 0n, max: 10n ** 30n }), fc.integer({ min: 0, max: 25 }))
      .map(([isNegative, digits, scale]) => {
        const padded = digits.toString().padStart(scale + 1, "0");
        const whole = padded.slice(0, padded.length - scale);
        const fraction = scale === 0 ? "" : `.${padded.slice(-scale)}`;
        return {
          text: `${isNegative ? "-" : ""}${whole}${fraction}`,
          digits: isNegative ? -digits : digits,
          scale,
        };
      });
    fc.assert(
      fc.property(decimals, ({ text, digits, scale }) => {
        const parsed = JSON.stringify(parseExact(`{"a": ${text}}`)).slice(5, -1);
        const [mantissa = "", exponent = "0"] = parsed.split("e");
        const [whole = "", fraction = ""] = mantissa.split(".");
        const shift = scale - fraction.length + Number(exponent);
        const unscaled = BigInt(whole.replace("-", "") + fraction) * (whole.startsWith("-") ? -1n : 1n);
        expect(shift >= 0 ? unscaled * 10n ** BigInt(shift) : unscaled).toBe(
          shift >= 0 ? digits : digits * 10n ** BigInt(-shift),
        );
      }),
    );
  });
});
