import { expect, it } from "vitest";
import { fineBut, load, problemsOf } from "./support.ts";

const fine = fineBut("", "");
const PRICE = "must be the price of one billed record";
const RANGE = "(a number from 0 to 999999999 without quotes, currency or separators)";
const LIMIT =
  "must be a whole number of records, 0 or more, or { amount: 500 } (an amount is in the currency of `prices`)";

it("a budget in money becomes the number of records that it pays for", async () => {
  const { budgets, prices } = await load(`${fine}
prices: { currency: USD, resolve: 0, validate_emails: 0.003, enrich: 0.10 }
budgets: { resolve: { per_day: { amount: 5 } }, validate_emails: { per_day: { amount: 0.1 }, per_month: 7 }, enrich: { per_month: { amount: 500 } } }
`);
  expect(prices).toEqual({
    currency: "USD",
    perRecord: { resolve: "0", validate_emails: "0.003", enrich: "0.1" },
  });
  expect(budgets).toEqual({
    resolve: { perDay: null, perMonth: null, amounts: { day: "5" } },
    validate_emails: { perDay: 33, perMonth: 7, amounts: { day: "0.1" } },
    enrich: { perDay: null, perMonth: 5000, amounts: { month: "500" } },
  });
});

it("without prices there are none", async () => {
  expect((await load(fine)).prices).toBeNull();
});

it("each mistake in prices and amounts is reported", async () => {
  const text = `${fine}
prices: { currency: usd, resolve: -1, validate_emails: .nan, enrich: 0.1000001, unlock: "0.2", unlok: 3 }
budgets:
  resolve: { per_day: { amont: 5 }, per_month: 1.5 }
  validate_emails: { per_day: { amount: -5 }, per_month: { amount: "5" } }
  enrich: { per_day: { amount: 1000000000 } }
`;
  expect(await problemsOf(text)).toEqual([
    "16 prices.currency: must be an ISO 4217 currency code such as USD (three capital letters)",
    `16 prices.resolve: ${PRICE} ${RANGE}`,
    `16 prices.validate_emails: ${PRICE} ${RANGE}`,
    "16 prices.enrich: has too many decimals (at most six are exact: 0.000125, for example)",
    `16 prices.unlock: ${PRICE} ${RANGE}`,
    "16 prices.unlok: is not a setting of prices (did you mean unlock?)",
    "18 budgets.resolve.per_day.amount: is missing (it must be an amount of money)",
    "18 budgets.resolve.per_day.amont: is not a setting of budgets.resolve.per_day (did you mean amount?)",
    `18 budgets.resolve.per_month: ${LIMIT}`,
    `19 budgets.validate_emails.per_day.amount: must be an amount of money ${RANGE}`,
    `19 budgets.validate_emails.per_month.amount: must be an amount of money ${RANGE}`,
    `20 budgets.enrich.per_day.amount: must be an amount of money ${RANGE}`,
  ]);
});

it("an amount needs a price, and prices a currency that exists", async () => {
  const budgets = "budgets: { enrich: { per_day: { amount: 5 } } }\n";
  expect(await problemsOf(`${fine}\n${budgets}`)).toEqual([
    "16 budgets.enrich.per_day.amount: needs prices.enrich, the price of one billed record (add prices: { currency: USD, enrich: 0.10 }, or write the number of records)",
  ]);
  expect(await problemsOf(`${fine}\nprices: { currency: USD, resolve: 1 }\n${budgets}`)).toEqual([
    "17 budgets.enrich.per_day.amount: needs prices.enrich, the price of one billed record (add enrich: 0.10 to `prices`, or write the number of records)",
  ]);
  expect(await problemsOf(`${fine}\nprices: { currency: XXQ }\n`)).toEqual([
    "16 prices.currency: must be an ISO 4217 currency code such as USD (three capital letters)",
  ]);
  expect(await problemsOf(`${fine}\nprices: { resolve: 1 }\n`)).toEqual([
    "16 prices.currency: is missing (it must be an ISO 4217 currency code such as USD)",
  ]);
});
