import type { Config } from "../../config/config.ts";
import type { BudgetUse } from "../../load/lookup.ts";

/** Use of a budget, in the documents of `plan --json` and `status --json`. */
export interface BudgetReport {
  /** Type of the jobs that share it. */
  readonly budget: string;
  readonly period: "day" | "month";
  /** Most records in the present period (UTC). */
  readonly limit: number;
  /** Records sent in it that were charged or may have been, those of calls under way included. */
  readonly used: number;
  readonly left: number;
}

/** Lists every budget of the configuration with its use. */
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
