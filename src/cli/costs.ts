import { type Text, table } from "./output.ts";
import { countText } from "../figures.ts";
import { type Cost, withAmount } from "../jobs/price.ts";
import type { BudgetReport } from "../jobs/report/attention.ts";
import type { RunReport } from "../jobs/job.ts";
import { amountText, priceText } from "../money.ts";

/** Formats a table of budgets with their use; empty without budgets. */
export function renderBudgets(
  budgets: readonly (BudgetReport & { readonly lasts_until?: string | null })[],
): readonly Text[] {
  const text = table(budgets, {
    budget: ({ budget }) => budget,
    records: ({ period }) => (period === "day" ? "today (UTC)" : "this month (UTC)"),
    limit: (one) => withAmount(one.limit, one.limit_amount, one.currency),
    used: ({ used }) => used,
    left: (one) => withAmount(one.left, one.left_amount, one.currency),
    "runs out (est.)": (one) => one.lasts_until?.slice(0, 16).replace("T", " ") ?? null,
  });
  const isInMoney = budgets.some(({ limit_amount }) => limit_amount !== undefined);
  return [
    text,
    isInMoney
      ? "(a limit in money counts everything that was or may have been billed, at current prices)"
      : "",
  ];
}

/**
 * Formats what a run cost: `Cost: $123.40 (enrich_customers: 1,234 records at $0.10).`; without prices only what may have
 * been billed, if anything.
 */
export function renderRunCost({ jobs, cost, shard, possibly_billed: possible = 0 }: RunReport): string {
  if (cost === undefined) {
    return possible === 0
      ? ""
      : `Up to ${countText(possible, "record")} may have been billed without a response.`;
  }
  const billed = jobs.flatMap(({ job, cost: own }) => {
    if (!own || own.records_billed === 0) return [];
    const { price, currency } = own;
    const each = price === null ? "" : ` at ${priceText(price, currency)}`;
    return [`${job}: ${countText(own.records_billed, "record")}${each}`];
  });
  const details = billed.length === 0 ? "" : ` (${billed.join("; ")})`;
  const subject = shard === undefined ? "Cost" : "Cost of all shards so far";
  return `${subject}: ${amountText(cost.amount, cost.currency)}${details}.${uncertainty(cost)}`;
}

/** Sentences on what else may have been billed, and on what has no price; each starts with a blank. */
export function uncertainty(cost: Cost): string {
  const { possibly_billed: possible, records_without_price: unpriced } = cost;
  const more = amountText(cost.possibly_billed_amount, cost.currency);
  return [
    possible === 0
      ? ""
      : ` Up to ${more} more: ${countText(possible, "record")} may have been billed without a response.`,
    unpriced === 0 ? "" : ` Not included: ${countText(unpriced, "billed record")} without a price.`,
  ].join("");
}
