import type { Config } from "../config/config.ts";
import { UNLOCK } from "../config/schema/prices.ts";
import { count } from "../figures.ts";
import type { Db } from "../load/db/db.ts";
import type { BilledDay } from "../load/ledger/costs.ts";
import { type BudgetUse, readBudgetUse, unused } from "../load/ledger/reserve.ts";
import {
  type Amount,
  amountText,
  costOf,
  type Price,
  priceText,
  sumOfAmounts,
  tiersAfter,
} from "../money.ts";

/** Records billed at one price. */
type BilledRow = Omit<BilledDay, "endpoint" | "per">;

/** Billed records and their cost in `prices.currency`, in `run --json` and `status --json`. Amounts are exact. */
export interface Cost {
  readonly amount: number;
  readonly possibly_billed_amount: number;
  /** ISO 4217. */
  readonly currency: string;
  readonly records_billed: number;
  /** Further records that may have been billed: calls without a response, records without a result. */
  readonly possibly_billed: number;
  /** Price of one record; null if they had several, or none. */
  readonly price: number | null;
  /** Billed records without a price in this currency, which are not part of the amount. */
  readonly records_without_price: number;
}

function sum<Row>(rows: readonly Row[], value: (row: Row) => number): number {
  return rows.reduce((total, row) => total + value(row), 0);
}

/** Cost of as many records at the price of a row. */
export function amountAt({ price }: Pick<BilledDay, "price">, records: number): Amount {
  return price === null ? "0" : costOf(records, [{ from: 0, amount: price }]);
}

export function costOfBilled(rows: readonly BilledRow[], currency: string): Cost {
  const priced = rows.filter((row) => row.price !== null && row.currency === currency);
  const billed = rows.filter(({ recordsBilled }) => recordsBilled > 0);
  const [price, ...others] = new Set(
    (billed.length > 0 ? billed : rows).map((row) => (row.currency === currency ? row.price : null)),
  );
  const amountOf = (records: (row: BilledRow) => number) =>
    Number(sumOfAmounts(priced.map((row) => amountAt(row, records(row)))));
  const records = sum(rows, (row) => row.recordsBilled);
  return {
    amount: amountOf((row) => row.recordsBilled),
    possibly_billed_amount: amountOf((row) => row.possiblyBilled),
    currency,
    records_billed: records,
    possibly_billed: sum(rows, (row) => row.possiblyBilled),
    price: typeof price === "string" && others.length === 0 ? Number(price) : null,
    records_without_price: records - sum(priced, (row) => row.recordsBilled),
  };
}

/** Price of the billed records of a budget; null without one. */
export function priceOf({ prices }: Pick<Config, "prices">, budget: string): Price | null {
  return prices?.byBudget[budget] ?? null;
}

/** Sentence on prices that don't state what is billed; empty if all do. */
export function assumptionText({ prices }: Pick<Config, "prices">): string {
  const assumed = Object.entries(prices?.byBudget ?? {}).flatMap(([budget, { per }]) =>
    per === null && budget !== UNLOCK ? [budget] : [],
  );
  if (assumed.length === 0) return "";
  const what = assumed.map((budget) => `${budget} each ${billedNoun(budget, null)}`).join(", ");
  const keys = assumed.map((budget) => `prices.${budget}.per`).join(", ");
  return `Assumed to be billed: ${what}. Compare with an invoice, then set ${keys}.`;
}

/** Unit in which records of a budget are billed: as `prices` states it, or the default. */
export function billedNoun(budget: string, per: Price["per"]): "record" | "address" | "match" {
  const unit = budget === "validate_emails" ? "address" : "record";
  if (budget === UNLOCK) return "record";
  return per === "match" || (per === null && unit === "record") ? "match" : unit;
}

/** Estimated cost of a run, in `plan --json`. */
export interface CostEstimate {
  readonly low: number;
  readonly expected: number;
  readonly high: number;
  /** ISO 4217. */
  readonly currency: string;
}

type Estimated = Readonly<Record<"low" | "expected" | "high", number>>;

/** @param billed records billed in the month before */
export function estimateCost({ low, expected, high }: Estimated, price: Price, billed: number): CostEstimate {
  const tiers = tiersAfter(price.tiers, billed);
  const cost = (records: number) => Number(costOf(records, tiers));
  return { low: cost(low), expected: cost(expected), high: cost(high), currency: price.currency };
}

/** Records certainly billed in the current month. */
export function certainlyBilled({ billed: { beforeToday, today } }: Pick<BudgetUse, "billed">): number {
  return beforeToday.least + today.least;
}

/** Cost of the largest possible charge of an unlock, in `search --json` and `audience --json`. */
export interface UnlockCost {
  readonly amount: number;
  /** Price per record; null if it depends on their number. */
  readonly price: number | null;
  /** ISO 4217. */
  readonly currency: string;
}

/** Cost of an unlock of at most this many records; null without a price. */
export async function unlockCost(
  { config, db }: { readonly config: Pick<Config, "prices">; readonly db: Db },
  records: number,
): Promise<UnlockCost | null> {
  const price = priceOf(config, UNLOCK);
  if (price === null) return null;
  const { tiers, currency } = price;
  const [first, ...others] = tiers;
  if (others.length === 0 && first) {
    return { amount: Number(costOf(records, tiers)), price: Number(first.amount), currency };
  }
  const { beforeToday, today } = ((await readBudgetUse(db)).get(UNLOCK) ?? unused).billed;
  const left = tiersAfter(tiers, beforeToday.least + today.least, beforeToday.most + today.most);
  return { amount: Number(costOf(records, left)), price: null, currency };
}

/** ` ($24.60 at $0.20)`; empty without a price. */
export function unlockCostText(cost: UnlockCost | null | undefined): string {
  if (!cost) return "";
  const { amount, price, currency } = cost;
  return ` (${amountText(amount, currency)}${price === null ? "" : ` at ${priceText(price, currency)}`})`;
}

export function sumOfEstimates(costs: readonly CostEstimate[], currency: string): CostEstimate {
  const sumOf = (value: (cost: CostEstimate) => number) =>
    Number(sumOfAmounts(costs.map((cost) => String(value(cost)))));
  return {
    low: sumOf((cost) => cost.low),
    expected: sumOf((cost) => cost.expected),
    high: sumOf((cost) => cost.high),
    currency,
  };
}

/** `$12.00`, or `about $12.00 ($10.00 to $15.00)` if uncertain. */
export function costText({ low, expected, high, currency }: CostEstimate): string {
  const text = (amount: number) => amountText(amount, currency);
  return low === high ? text(expected) : `about ${text(expected)} (${text(low)} to ${text(high)})`;
}

/** `5,000 ($500.00)`, or only the number of records without an amount. */
export function withAmount(
  records: number,
  amount: number | undefined,
  currency: string | undefined,
): string {
  const isKnown = amount !== undefined && currency !== undefined;
  return isKnown ? `${count(records)} (${amountText(amount, currency)})` : count(records);
}
