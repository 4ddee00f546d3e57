import type { Config } from "../config/config.ts";
import { UNLOCK } from "../config/schema/document.ts";
import { count } from "../figures.ts";
import type { BilledDay } from "../load/ledger/costs.ts";
import { type Amount, amountText, costOf, type Price, priceText, sumOfAmounts } from "../money.ts";

/** Billed records and their cost in `prices.currency`, in `run --json` and `status --json`. Amounts are exact. */
export interface Cost {
  readonly amount: number;
  readonly possibly_billed_amount: number;
  /** ISO 4217. */
  readonly currency: string;
  readonly records_billed: number;
  /** Further records that may have been billed: calls without an answer, records without a result. */
  readonly possibly_billed: number;
  /** Price of one record; null if they had several, or none. */
  readonly price: number | null;
  /** Billed records without a price in this currency, which are not part of the amount. */
  readonly records_without_price: number;
}

function sum<Row>(rows: readonly Row[], value: (row: Row) => number): number {
  return rows.reduce((total, row) => total + value(row), 0);
}

export function costOfBilled(rows: readonly BilledDay[], currency: string): Cost {
  const priced = rows.flatMap(({ price, ...row }) =>
    price !== null && row.currency === currency ? [{ ...row, price }] : [],
  );
  const amount = (cost: (row: (typeof priced)[number]) => Amount) => Number(sumOfAmounts(priced.map(cost)));
  const [price, ...others] = new Set(rows.map((row) => (row.currency === currency ? row.price : null)));
  const billed = sum(rows, (row) => row.recordsBilled);
  return {
    amount: amount((row) => costOf(row.recordsBilled, row.price)),
    possibly_billed_amount: amount((row) => costOf(row.possiblyBilled, row.price)),
    currency,
    records_billed: billed,
    possibly_billed: sum(rows, (row) => row.possiblyBilled),
    price: typeof price === "string" && others.length === 0 ? Number(price) : null,
    records_without_price: billed - sum(priced, (row) => row.recordsBilled),
  };
}

/** Price of one billed record, by the name of its budget; null without one. */
export function priceOf({ prices }: Pick<Config, "prices">, budget: string): Price | null {
  const perRecord = prices?.perRecord[budget];
  return prices && perRecord !== undefined ? { perRecord, currency: prices.currency } : null;
}

/** Estimated cost of a run, in `plan --json`. */
export interface CostEstimate {
  readonly low: number;
  readonly expected: number;
  readonly high: number;
  /** ISO 4217. */
  readonly currency: string;
}

export function estimateCost(
  { low, expected, high }: Readonly<Record<"low" | "expected" | "high", number>>,
  { perRecord, currency }: Price,
): CostEstimate {
  const cost = (records: number) => Number(costOf(records, perRecord));
  return { low: cost(low), expected: cost(expected), high: cost(high), currency };
}

/** Cost of the largest possible charge of an unlock, in `search --json` and `audience --json`. */
export interface UnlockCost {
  readonly amount: number;
  /** Price per record. */
  readonly price: number;
  /** ISO 4217. */
  readonly currency: string;
}

/** Cost of an unlock of at most this many records; null without a price. */
export function unlockCost(config: Pick<Config, "prices">, records: number): UnlockCost | null {
  const price = priceOf(config, UNLOCK);
  if (price === null) return null;
  const { perRecord, currency } = price;
  return { amount: Number(costOf(records, perRecord)), price: Number(perRecord), currency };
}

/** ` ($24.60 at $0.20)`; empty without a price. */
export function unlockCostText(cost: UnlockCost | null | undefined): string {
  if (!cost) return "";
  const { amount, price, currency } = cost;
  return ` (${amountText(amount, currency)} at ${priceText({ perRecord: String(price), currency })})`;
}

export function sumOfEstimates(costs: readonly CostEstimate[], currency: string): CostEstimate {
  const sum = (value: (cost: CostEstimate) => number) =>
    Number(sumOfAmounts(costs.map((cost) => String(value(cost)))));
  return {
    low: sum((cost) => cost.low),
    expected: sum((cost) => cost.expected),
    high: sum((cost) => cost.high),
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
