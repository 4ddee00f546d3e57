import { describe, expect, test } from "vitest";
import { amountOf, amountText, costOf, priceText, recordsFor, sumOfAmounts } from "../src/money.ts";
import * as fc from "./support/fast-check.ts";

/** A number of the configuration with at most six decimals, and its millionths. */
const money = fc.integer({ min: 0, max: 999_999_999_000_000 }).map((millionths) => ({
  value: millionths / 1_000_000,
  millionths: BigInt(millionths),
}));

const priced = money.filter(({ millionths }) => millionths > 0n);

/** Millionths of a plain decimal. */
function millionthsOf(text: string): bigint {
  const [whole = "", decimals = ""] = text.split(".");
  return BigInt(whole + decimals.padEnd(6, "0"));
}

const exact = (value: number): string => amountOf(value) ?? "not an amount";

describe("an amount", () => {
  test("keeps every digit of the configuration", () => {
    fc.assert(
      fc.property(money, ({ value, millionths }) => {
        expect(millionthsOf(exact(value))).toBe(millionths);
      }),
    );
  });

  test.each([-1, -0.01, Number.NaN, Number.POSITIVE_INFINITY, 0.000_000_1, 0.123_456_7, 1e9, 1e21])(
    "is never %s",
    (value) => {
      expect(amountOf(value)).toBeNull();
    },
  );

  test("has no drift, where a double would have it", () => {
    expect(costOf(3, exact(0.1))).toBe("0.3");
    expect(costOf(1_000_000_007, exact(0.000_001))).toBe("1000.000007");
    expect(sumOfAmounts(["0.1", "0.2", "100"])).toBe("100.3");
    expect(sumOfAmounts([])).toBe("0");
  });

  test("of records is their number times the price", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10_000_000_000 }), money, (records, { value, millionths }) => {
        expect(millionthsOf(costOf(records, exact(value)))).toBe(BigInt(records) * millionths);
      }),
    );
  });

  test("sums up in any order", () => {
    fc.assert(
      fc.property(fc.array(money), (all) => {
        const texts = all.map(({ value }) => exact(value));
        const sum = all.reduce((total, { millionths }) => total + millionths, 0n);
        expect(millionthsOf(sumOfAmounts(texts))).toBe(sum);
        expect(sumOfAmounts(texts.toReversed())).toBe(sumOfAmounts(texts));
      }),
    );
  });
});

describe("a budget in money", () => {
  test("is the largest number of records that it pays for", () => {
    fc.assert(
      fc.property(money, priced, (amount, price) => {
        const records = recordsFor(exact(amount.value), exact(price.value));
        expect(BigInt(records ?? -1) * price.millionths).toBeLessThanOrEqual(amount.millionths);
        expect((BigInt(records ?? -1) + 1n) * price.millionths).toBeGreaterThan(amount.millionths);
      }),
    );
  });

  test("is exact where a double would lose a record", () => {
    expect(0.3 / 0.1).toBeLessThan(3);
    expect(recordsFor("0.3", "0.1")).toBe(3);
    expect(recordsFor("500", "0.1")).toBe(5000);
    expect(recordsFor("0.05", "0.1")).toBe(0);
    expect(recordsFor("500", "0")).toBeNull();
  });
});

test("amounts are shown in cents, smaller ones and prices with their decimals", () => {
  expect(["1234.5", "0", "0.0063", "0.85", "4.618"].map((amount) => amountText(amount, "USD"))).toEqual([
    "$1,234.50",
    "$0.00",
    "$0.0063",
    "$0.85",
    "$4.62",
  ]);
  expect(amountText("1234.5", "JPY")).toBe("¥1,235");
  expect(amountText("1234.5", "EUR")).toBe("€1,234.50");
  expect(priceText({ perRecord: "0.1", currency: "USD" })).toBe("$0.10");
  expect(priceText({ perRecord: "0.0025", currency: "USD" })).toBe("$0.0025");
});
