import { z } from "zod";
import { type Amount, amountOf, LARGEST_AMOUNT } from "../../money.ts";
import { described, text, wholeNumber } from "./described.ts";
import { settings } from "./settings.ts";

/** `prices`, parsed. */
export interface Prices {
  /** ISO 4217 code. */
  readonly currency: string;
  /** Price of one billed record, by the name of its budget; missing if not given. */
  readonly perRecord: Readonly<Record<string, Amount>>;
}

/** An amount of money in the currency of `prices`. */
function amount(expects: string) {
  const schema = z
    .number()
    .min(0)
    .max(LARGEST_AMOUNT)
    .check((context) => {
      if (context.value < 0 || context.value > LARGEST_AMOUNT || amountOf(context.value) !== null) return;
      const complaint = {
        message: "has too many decimals",
        hint: "at most six are exact: 0.000125, for example",
      };
      context.issues.push({ code: "custom", input: context.value, params: { complaint } });
    });
  return described(schema, {
    expects,
    hint: `a number from 0 to ${LARGEST_AMOUNT} without quotes, currency or separators`,
  });
}

/** Declares `prices` for the budgets of these names. */
export function pricesOf(names: readonly string[]) {
  const currency = text(
    {
      expects: "an ISO 4217 currency code such as USD",
      hint: "three capital letters",
      pattern: "^[A-Z]{3}$",
    },
    (value) => !Intl.supportedValuesOf("currency").includes(value),
  );
  const price = Object.fromEntries(
    names.map((name) => [name, amount("the price of one billed record").optional()]),
  );
  return z.strictObject({ currency, ...price }).transform(({ currency: code, ...given }): Prices => {
    const perRecord = Object.entries(given).flatMap(([name, value]) => {
      const exact = typeof value === "number" ? amountOf(value) : null;
      return exact === null ? [] : [[name, exact] as const];
    });
    return { currency: code, perRecord: Object.fromEntries(perRecord) };
  });
}

/** Maximum records in a period, or an amount of money that stands for a number of records. */
function limit() {
  const records = wholeNumber(0, Number.MAX_SAFE_INTEGER);
  const money = settings({ amount: amount("an amount of money") });
  return described(z.union([records, money]), {
    expects: "a whole number of records, 0 or more, or { amount: 500 }",
    hint: "an amount is in the currency of `prices`",
  });
}

/** One of `budgets`: maximum records of all jobs of a type per UTC day and month. */
export const budget = settings({ per_day: limit().optional(), per_month: limit().optional() });
