import type { BudgetReport } from "../jobs/report/budget-report.ts";
import { count } from "./figures.ts";
import { renderTable } from "./text-table.ts";

/** Formats a table of budgets with their use. */
export function renderBudgets(
  { budgets }: { readonly budgets: readonly (BudgetReport & { readonly lasts_until?: string | null })[] },
  widthColumns: number | null,
): string {
  const isForeseen = budgets.some(({ lasts_until }) => lasts_until !== undefined);
  return renderTable(
    [
      { name: "budget" },
      { name: "records" },
      { name: "limit", isNumber: true },
      { name: "used", isNumber: true },
      { name: "left", isNumber: true },
      ...(isForeseen ? [{ name: "lasts until (UTC)" }] : []),
    ],
    budgets.map(({ budget, period, limit, used, left, lasts_until }) => [
      budget,
      period === "day" ? "today (UTC)" : "this month (UTC)",
      count(limit),
      count(used),
      count(left),
      ...(isForeseen ? [lasts_until?.slice(0, 16).replace("T", " ") ?? `end of the ${period}`] : []),
    ]),
    widthColumns,
  );
}
