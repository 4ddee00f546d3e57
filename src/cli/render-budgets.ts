import type { BudgetReport } from "../jobs/budget-report.ts";
import { count } from "./figures.ts";
import { renderTable } from "./text-table.ts";

/** A table of what is left of each budget. */
export function renderBudgets(
  { budgets }: { readonly budgets: readonly BudgetReport[] },
  widthColumns: number | null,
): string {
  return renderTable(
    [
      { name: "budget" },
      { name: "records" },
      { name: "limit", isNumber: true },
      { name: "used", isNumber: true },
      { name: "left", isNumber: true },
    ],
    budgets.map(({ budget, period, limit, used, left }) => [
      budget,
      period === "day" ? "today (UTC)" : "this month (UTC)",
      count(limit),
      count(used),
      count(left),
    ]),
    widthColumns,
  );
}
