import { z } from "zod";
import type { NestedProblem } from "../problems.ts";
import type { JobDeclaration } from "./jobs.ts";
import {
  choice,
  isMapping,
  listOf,
  setEntries,
  setting,
  settings,
  text,
  wholeNumber,
  withRule,
} from "./settings.ts";
import { METERED_SEARCH } from "../../schemas/ledger.ts";
import { amountOf, LARGEST_AMOUNT, type Price } from "../../money.ts";

/** Name of the budget and price of everything that unlocks bill. */
export const UNLOCK = "unlock";

/** Budgets of records that are billed, so that they can have a price. */
export function billedBudgets(jobTypes: readonly JobDeclaration[]): readonly string[] {
  return [...jobTypes.filter(({ isBilled }) => isBilled).map(({ type }) => type), UNLOCK];
}

const MOST = Number.MAX_SAFE_INTEGER;

/** `prices`, parsed. */
export interface Prices {
  /** ISO 4217 code. */
  readonly currency: string;
  /** By the name of the budget; missing if not given. */
  readonly byBudget: Readonly<Record<string, Price>>;
}

/** An amount of money in the currency of `prices`. */
function amount(expects: string) {
  const schema = z
    .number()
    .min(0)
    .max(LARGEST_AMOUNT)
    .check((context) => {
      if (context.value < 0 || context.value > LARGEST_AMOUNT || amountOf(context.value) !== null) return;
      const problem = {
        message: "has too many decimals",
        hint: "at most six are exact: 0.000125, for example",
      };
      context.issues.push({ code: "custom", input: context.value, params: { problem } });
    });
  return setting(schema, {
    expects,
    hint: `a number from 0 to ${LARGEST_AMOUNT} without quotes, currency or separators`,
  });
}

const tier = settings({
  from: wholeNumber(1, MOST),
  amount: amount("the price of one billed record"),
});

/** Terms of a contract. */
const terms = settings(
  {
    amount: amount("the price of one billed record").optional(),
    per: choice(["record", "match"], "which records the invoice counts").optional(),
    included_per_month: wholeNumber(1, MOST).optional(),
    overage: amount("the price of one record beyond included_per_month").optional(),
    tiers: listOf(tier, "a list of { from: 100000, amount: 0.08 }", 1).optional(),
  },
  termsProblems,
);

/** Every record has a price, and tiers ascend. */
function termsProblems(given: Readonly<Record<string, unknown>>): readonly NestedProblem[] {
  const { amount: base, included_per_month: included, overage, tiers } = given;
  const found: NestedProblem[] = [];
  if (base === undefined && overage === undefined) {
    found.push({ path: ["amount"], message: "is missing", hint: "the price of one billed record: 0.10" });
  }
  if (overage !== undefined && included === undefined) {
    const hint = "the number of records that the plan covers each month";
    found.push({ path: ["included_per_month"], message: "is missing: overage begins after it", hint });
  }
  let least = typeof included === "number" ? included : 1;
  for (const [i, one] of (Array.isArray(tiers) ? tiers : []).entries()) {
    const from: unknown = isMapping(one) ? one["from"] : undefined;
    if (typeof from !== "number") continue;
    if (from < least) {
      const message = i === 0 ? "is within included_per_month" : "is not above the tier before";
      const hint = "count every billed record of the month, included ones too; lowest tier first";
      found.push({ path: ["tiers", i, "from"], message, hint });
    }
    least = from + 1;
  }
  return found;
}

function priceOfTerms(given: number | z.output<typeof terms>, currency: string): Price {
  if (typeof given === "number") return { tiers: [{ from: 0, amount: String(given) }], per: null, currency };
  const { amount: base, per, includedPerMonth: included, overage, tiers } = given;
  const first = included === null ? base : (overage ?? base);
  const written = [
    ...(included === null ? [] : [{ from: 0, amount: 0 }]),
    // A tier that begins with the end of the allowance replaces the price after it.
    ...(tiers?.[0]?.from === included ? [] : [{ from: included ?? 0, amount: first ?? 0 }]),
    ...(tiers ?? []),
  ];
  return { tiers: written.map((one) => ({ ...one, amount: String(one.amount) })), per, currency };
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
  const price = setting(z.union([amount("the price of one billed record"), terms]), {
    expects: "the price of one billed record, or { amount: 0.10, per: match }",
    hint: `a number from 0 to ${LARGEST_AMOUNT} without quotes, currency or separators`,
  });
  const byName = Object.fromEntries(names.map((name) => [name, price.optional()]));
  const schema = withRule(z.strictObject({ currency, ...byName }), ({ [UNLOCK]: unlock }) => {
    if (!isMapping(unlock) || (unlock["per"] ?? null) === null) return [];
    const hint = "remove it: the service states what each unlock bills";
    return [{ path: [UNLOCK, "per"], message: "doesn't apply to unlocks", hint }];
  });
  return schema.transform(({ currency: code, ...given }): Prices => {
    const priced = setEntries<z.output<typeof price>>(given).map(
      ([name, value]) => [name, priceOfTerms(value, code)] as const,
    );
    return { currency: code, byBudget: Object.fromEntries(priced) };
  });
}

/** Maximum records in a period, or an amount of money that stands for a number of records. */
function limit() {
  const records = wholeNumber(0, MOST);
  const words = {
    expects: "a whole number of records, 0 or more, or { amount: 500 }",
    hint: "write 100000 for records, or { amount: 500 } in the currency of `prices`",
  };
  const money = settings({ amount: amount("an amount of money") }, undefined, words);
  return setting(z.union([records, money]), words);
}

/** One of `budgets`: maximum records of all jobs of a type per UTC day and month. */
export const budget = settings({ per_day: limit().optional(), per_month: limit().optional() }, undefined, {
  expects: "the records per UTC day or month",
  hint: "write { per_day: 100000 } or { per_month: { amount: 500 } }",
});

/** Declares `budgets` for the names that can have one in money, and for searches, which are metered and have no price. */
export function budgetsOf(names: readonly string[]) {
  const records = settings({
    per_day: wholeNumber(0, MOST).optional(),
    per_month: wholeNumber(0, MOST).optional(),
  });
  const billed = names.map((name) => [name, budget.optional()] as const);
  return z.strictObject(Object.fromEntries([...billed, [METERED_SEARCH, records.optional()]]));
}
