import type { Config } from "../../config/config.ts";
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
}

/** Lists all configured budgets with their use. */
export function budgetReports(
  { budgets }: Pick<Config, "budgets">,
  uses: readonly BudgetUse[],
): readonly BudgetReport[] {
  return Object.entries(budgets).flatMap(([budget, { perDay, perMonth }]) =>
    (["day", "month"] as const).flatMap((period) => {
      const limit = period === "day" ? perDay : perMonth;
      if (limit === null) return [];
      const used = uses.find((use) => use.budget === budget && use.period === period)?.records ?? 0;
      return [{ budget, period, limit, used, left: Math.max(0, limit - used) }];
    }),
  );
}
