import type { BudgetReport } from "../jobs/report/budget-report.ts";
import { amountText } from "../money.ts";
import { count } from "../figures.ts";
import { renderTable } from "./text-table.ts";

/** Formats a table of budgets with their use. */
export function renderBudgets(
  { budgets }: { readonly budgets: readonly (BudgetReport & { readonly lasts_until?: string | null })[] },
  widthColumns: number | null,
): string {
  const isForeseen = budgets.some(({ lasts_until }) => lasts_until !== undefined);
  const table = renderTable(
    [
      { name: "budget" },
      { name: "records" },
      { name: "limit", isNumber: true },
      { name: "used", isNumber: true, drop: 1 },
      { name: "left", isNumber: true },
      ...(isForeseen ? [{ name: "lasts until (UTC)", drop: 2 }] : []),
    ],
    budgets.map(({ budget, period, limit, used, left, lasts_until, limit_amount, left_amount, currency }) => [
      budget,
      period === "day" ? "today (UTC)" : "this month (UTC)",
      withAmount(limit, limit_amount, currency),
      count(used),
      withAmount(left, left_amount, currency),
      ...(isForeseen ? [lasts_until?.slice(0, 16).replace("T", " ") ?? `end of the ${period}`] : []),
    ]),
    widthColumns,
  );
  const isInMoney = budgets.some(({ limit_amount }) => limit_amount !== undefined);
  return isInMoney
    ? `${table}\n(a limit in money counts every record sent as billed, at the current price)`
    : table;
}

/** `5,000 ($500.00)`, or only the number of records without an amount. */
function withAmount(records: number, amount: number | undefined, currency: string | undefined): string {
  const isKnown = amount !== undefined && currency !== undefined;
  return isKnown ? `${count(records)} (${amountText(amount, currency)})` : count(records);
}
