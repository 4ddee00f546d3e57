import { html } from "hono/html";
import { costOfBilled } from "../../../jobs/price.ts";
import type { BudgetOutlook } from "../../../jobs/report/budget-outlook.ts";
import type { QuotaReport } from "../../../jobs/report/status.ts";
import { count, countText, timeText } from "../../../figures.ts";
import type { LedgerHistoryRow } from "../../../load/history/ledger-history.ts";
import { amountText, costOf } from "../../../money.ts";
import type { Point } from "../charts.ts";
import { bar, type Html, note, past, table } from "../elements.ts";
import { renderDays } from "../draw-chart.ts";
import { dayBefore, type View } from "../view.ts";

/** Renders what was billed, in money where prices are configured, and what budgets and quotas leave. */
export async function showCost({ services, status, ledger, nowMs }: View): Promise<Html> {
  const { config } = services;
  const currency = config.prices?.currency ?? null;
  const rows = await ledger();
  const spent =
    rows.length === 0
      ? note("Nothing was billed in 90 days.")
      : html`<div class="charts">${await renderDays(
          {
            title: currency === null ? "Billed records per day" : `Cost per day (${currency})`,
            points: pointsOf(rows, currency),
            text: currency === null ? count : (value) => amountText(value, currency),
            axisText: currency === null ? count : (value) => amountText(value, currency).replace(/\.00$/, ""),
            form: "bars",
          },
          nowMs,
        )}<div>${periods(rows, currency, nowMs)}</div></div>`;
  return html`${spent}
<h3>Budgets (UTC)</h3>${budgets(status.budgets)}
<h3>Quota of the service</h3>${quotas(status.quotas, nowMs)}`;
}

function pointsOf(rows: readonly LedgerHistoryRow[], currency: string | null): readonly Point[] {
  const points = new Map<string, Point>();
  for (const row of rows) {
    const isPriced = row.price !== null && row.currency === currency;
    const value =
      currency === null
        ? row.recordsBilled
        : isPriced
          ? Number(costOf(row.recordsBilled, row.price ?? "0"))
          : 0;
    const key = `${row.day} ${row.job}`;
    points.set(key, { day: row.day, series: row.job, value: value + (points.get(key)?.value ?? 0) });
  }
  return [...points.values()].filter(({ value }) => value > 0);
}

/** Sums of today, of this month and of the month before. */
function periods(rows: readonly LedgerHistoryRow[], currency: string | null, nowMs: number): Html {
  const today = dayBefore(nowMs, 0);
  const month = today.slice(0, 7);
  const before = dayBefore(Date.parse(`${month}-01T00:00:00Z`), 1).slice(0, 7);
  const named = [
    ["today", today],
    ["this month", month],
    ["last month", before],
  ] as const;
  const isPriced = currency !== null;
  return table(
    "Billed by period (UTC)",
    [
      { name: "period (UTC)" },
      { name: "records billed", isNumber: true },
      ...(isPriced ? [{ name: "cost", isNumber: true }] : []),
      { name: "possibly billed", isNumber: true, isExtra: true },
    ],
    named.map(([name, start]) => {
      const own = rows.filter(({ day }) => day.startsWith(start));
      const cost = costOfBilled(own, currency ?? "");
      const unpriced = cost.records_without_price;
      const amount = amountText(cost.amount, currency ?? "USD");
      return [
        name,
        count(cost.records_billed),
        ...(isPriced
          ? [unpriced === 0 ? amount : `${amount} and ${countText(unpriced, "record")} without a price`]
          : []),
        count(cost.possibly_billed),
      ];
    }),
    "",
  );
}

function budgets(found: readonly BudgetOutlook[]): Html {
  return table(
    "Budgets",
    [
      { name: "budget" },
      { name: "used", isNumber: true },
      { name: "limit", isNumber: true, isExtra: true },
      { name: "share", isExtra: true },
      { name: "left", isNumber: true },
      { name: "lasts until", isExtra: true },
      { name: "renewed", isExtra: true },
    ],
    found.map((budget) => [
      `${budget.budget} per ${budget.period}`,
      count(budget.used),
      withAmount(budget.limit, budget.limit_amount, budget.currency),
      bar(budget.used, budget.limit, `${budget.budget} per ${budget.period}: used`),
      withAmount(budget.left, budget.left_amount, budget.currency),
      budget.lasts_until === null ? `end of the ${budget.period}` : timeText(budget.lasts_until),
      timeText(budget.resets_at),
    ]),
    "No budget is configured: runs send everything that is due.",
  );
}

function withAmount(records: number, amount: number | undefined, currency: string | undefined): string {
  const isKnown = amount !== undefined && currency !== undefined;
  return isKnown ? `${count(records)} (${amountText(amount, currency)})` : count(records);
}

function quotas(found: readonly QuotaReport[], nowMs: number): Html {
  const known = found.flatMap(({ limit, left, observed_at: at }) =>
    limit === null || left === null ? [] : [{ limit, left, at }],
  );
  return table(
    "Quota of person search",
    [
      { name: "quota" },
      { name: "limit", isNumber: true },
      { name: "used", isExtra: true },
      { name: "left", isNumber: true },
      { name: "read", isExtra: true },
    ],
    known.map(({ limit, left, at }) => [
      "person search per day",
      count(limit),
      bar(limit - left, limit, "quota of person search: used"),
      count(left),
      past(at, nowMs),
    ]),
    "No job has read a quota yet (search_usage does).",
  );
}
