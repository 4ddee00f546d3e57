import { describe, expect, test } from "vitest";
import {
  type Amount,
  amountOf,
  amountText,
  costOf,
  moneyLeft,
  priceText,
  recordsFor,
  sumOfAmounts,
  type Tier,
  tiersAfter,
} from "../src/money.ts";
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

/** The same price for every record. */
const flat = (amount: Amount): readonly Tier[] => [{ from: 0, amount }];

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
    expect(costOf(3, flat(exact(0.1)))).toBe("0.3");
    expect(costOf(1_000_000_007, flat(exact(0.000_001)))).toBe("1000.000007");
    expect(sumOfAmounts(["0.1", "0.2", "100"])).toBe("100.3");
    expect(sumOfAmounts([])).toBe("0");
  });

  test("of records is their number times the price", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10_000_000_000 }), money, (records, { value, millionths }) => {
        expect(millionthsOf(costOf(records, flat(exact(value))))).toBe(BigInt(records) * millionths);
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
        const records = recordsFor(exact(amount.value), flat(exact(price.value)));
        expect(BigInt(records ?? -1) * price.millionths).toBeLessThanOrEqual(amount.millionths);
        expect((BigInt(records ?? -1) + 1n) * price.millionths).toBeGreaterThan(amount.millionths);
      }),
    );
  });

  test("is exact where a double would lose a record", () => {
    expect(0.3 / 0.1).toBeLessThan(3);
    expect(recordsFor("0.3", flat("0.1"))).toBe(3);
    expect(recordsFor("500", flat("0.1"))).toBe(5000);
    expect(recordsFor("0.05", flat("0.1"))).toBe(0);
    expect(recordsFor("500", flat("0"))).toBeNull();
  });
});

/** 0 to 4 tiers of small prices, and the price of each record by position. */
const contract = fc
  .array(fc.tuple(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 0, max: 5 })), { maxLength: 4 })
  .map((steps) => {
    let from = 0;
    const tiers = [{ from, amount: "0" }];
    for (const [size, price] of steps) tiers.push({ from: (from += size), amount: String(price) });
    const priceAt = (position: number) => Number(tiers.findLast((tier) => tier.from <= position)?.amount);
    return { tiers, priceAt };
  });
const few = fc.integer({ min: 0, max: 30 });

describe("prices by number of records", () => {
  test("cost what a loop over the records adds up", () => {
    fc.assert(
      fc.property(contract, few, few, ({ tiers, priceAt }, before, records) => {
        let sum = 0;
        for (let i = before; i < before + records; i++) sum += priceAt(i);
        expect(costOf(records, tiersAfter(tiers, before))).toBe(String(sum));
      }),
    );
  });

  test("after a number of records between two bounds never cost more than stated", () => {
    fc.assert(
      fc.property(contract, few, few, few, few, ({ tiers }, least, more, at, records) => {
        const worst = Number(costOf(records, tiersAfter(tiers, least, least + more)));
        const real = Number(costOf(records, tiersAfter(tiers, least + Math.min(at, more))));
        expect(real).toBeLessThanOrEqual(worst);
      }),
    );
  });

  test("pay for the largest number of records within an amount", () => {
    fc.assert(
      fc.property(contract, few, ({ tiers }, amount) => {
        const records = recordsFor(String(amount), tiers);
        const isUnlimited = records === null;
        expect(isUnlimited && tiers.at(-1)?.amount !== "0").toBe(false);
        const most = records ?? 1000;
        expect(Number(costOf(most, tiers))).toBeLessThanOrEqual(amount);
        expect(isUnlimited || Number(costOf(most + 1, tiers)) > amount).toBe(true);
      }),
    );
  });

  test("bound a day by what the month's earlier records leave of an allowance, whatever became of those in doubt", () => {
    const tiers = [
      { from: 0, amount: "0" },
      { from: 100, amount: "0.1" },
      { from: 200, amount: "0.05" },
    ];
    const budget = { price: { tiers, per: "match", currency: "USD" }, day: "1", month: "6" } as const;
    const left = (least: number, most: number, today: number) =>
      (["day", "month"] as const).map(
        (period) =>
          moneyLeft(budget, period, { beforeToday: { least, most }, today: { least: today, most: today } })
            ?.records,
      );
    expect(left(0, 0, 0)).toEqual([110, 160]);
    // 50 of the allowance are left, then ten at 0.1; three of them were sent.
    expect(left(50, 50, 53)).toEqual([7, 57]);
    // None of the allowance is certain to be left, and the cheaper tier isn't certain to be reached.
    expect(left(90, 210, 0)).toEqual([10, 0]);
    expect(left(210, 210, 0)).toEqual([20, 0]);
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
  expect(priceText("0.1", "USD")).toBe("$0.10");
  expect(priceText("0.0025", "USD")).toBe("$0.0025");
});
