import type { Config } from "../../config/config.ts";
import { type Amount, costOf, type Price } from "../../money.ts";
import { priceOf } from "../price.ts";
import type { BudgetUse } from "../../load/ledger/budget-rows.ts";

/** Use of a budget, in `plan --json` and `status --json`. */
export interface BudgetReport {
  /** Type of the jobs that share the budget. */
  readonly budget: string;
  readonly period: "day" | "month";
  /** Maximum records in the current period (UTC). */
  readonly limit: number;
  /** Records sent in the period that were or may have been billed, including calls in flight. */
  readonly used: number;
  readonly left: number;
  /** Limit as given, in money. It stands for `limit` records, as if each were billed. */
  readonly limit_amount?: number;
  /** With a price: the most that the records left can cost. */
  readonly left_amount?: number;
  /** Price of one billed record. */
  readonly price?: number;
  /** ISO 4217. */
  readonly currency?: string;
}

/** Lists all configured budgets with their use. */
export function budgetReports(
  config: Pick<Config, "budgets" | "prices">,
  uses: readonly BudgetUse[],
): readonly BudgetReport[] {
  return Object.entries(config.budgets).flatMap(([budget, { perDay, perMonth, amounts = {} }]) =>
    (["day", "month"] as const).flatMap((period) => {
      const limit = period === "day" ? perDay : perMonth;
      if (limit === null) return [];
      const used = uses.find((use) => use.budget === budget && use.period === period)?.records ?? 0;
      const left = Math.max(0, limit - used);
      return [
        { budget, period, limit, used, left, ...inMoney(left, priceOf(config, budget), amounts[period]) },
      ];
    }),
  );
}

function inMoney(left: number, price: Price | null, limit: Amount | undefined): Partial<BudgetReport> {
  if (price === null) return {};
  const { perRecord, currency } = price;
  return {
    ...(limit === undefined ? {} : { limit_amount: Number(limit) }),
    left_amount: Number(costOf(left, perRecord)),
    price: Number(perRecord),
    currency,
  };
}
