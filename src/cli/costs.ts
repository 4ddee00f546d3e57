import { renderTable } from "./output.ts";
import { count, countText } from "../figures.ts";
import { type Cost, withAmount } from "../jobs/price.ts";
import type { BudgetReport } from "../jobs/report/attention.ts";
import type { JobReport, RunReport } from "../jobs/job.ts";
import { amountText, priceText } from "../money.ts";

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

/** Noun for billed records of a job type. */
const NOUNS: Readonly<Record<string, readonly [string, string]>> = {
  resolve: ["match", "matches"],
  enrich: ["match", "matches"],
  validate_emails: ["address", "addresses"],
};

/** Formats what a run cost: `Cost: $123.40 (1,234 matches at $0.10).`; empty without prices. */
export function renderRunCost({ jobs, cost, shard }: RunReport): string {
  if (cost === undefined) return "";
  const billed = jobs.flatMap((job) =>
    job.cost && job.cost.records_billed > 0 ? [{ job, cost: job.cost }] : [],
  );
  const [only] = billed;
  const parts =
    only && billed.length === 1
      ? [`${nounOf(only.job, only.cost.records_billed)}${at(only.cost)}`]
      : billed.map(({ job, cost: own }) => `${job.job}: ${count(own.records_billed)}${at(own)}`);
  const details = parts.length === 0 ? "" : ` (${parts.join("; ")})`;
  const subject = shard === undefined ? "Cost" : "Cost of all shards so far";
  return `${subject}: ${amountText(cost.amount, cost.currency)}${details}.${uncertainty(cost)}`;
}

/** Sentences on what else may have been billed, and on what has no price; each starts with a blank. */
export function uncertainty(cost: Cost): string {
  const { possibly_billed: possible, records_without_price: unpriced } = cost;
  const more = amountText(cost.possibly_billed_amount, cost.currency);
  return [
    ...(possible === 0
      ? []
      : [` Up to ${more} more: ${countText(possible, "record")} may have been billed without an answer.`]),
    ...(unpriced === 0 ? [] : [` ${countText(unpriced, "billed record")} without a price not included.`]),
  ].join("");
}

function nounOf({ type }: JobReport, records: number): string {
  return countText(records, ...(NOUNS[type] ?? (["record", "records"] as const)));
}

function at({ price, currency }: Cost): string {
  return price === null ? "" : ` at ${priceText({ perRecord: String(price), currency })}`;
}
