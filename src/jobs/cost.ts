import type { BilledDay } from "../load/ledger/costs.ts";
import { type Amount, costOf, sumOfAmounts } from "../money.ts";

/** Billed records and their cost in `prices.currency`, in `run --json` and `status --json`. Amounts are exact. */
export interface Cost {
  readonly amount: number;
  /** Cost of {@link possibly_billed}. */
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

/** Cost of records of the ledger. */
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
