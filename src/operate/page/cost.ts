import { html } from "hono/html";
import { count, countText, timeText } from "../../figures.ts";
import { amountAt, costOfBilled, withAmount } from "../../jobs/price.ts";
import type { StatusReport } from "../../jobs/report/status.ts";
import { type LedgerHistoryRow, readUsageHistory } from "../../load/history/queries.ts";
import { amountText } from "../../money.ts";
import { type Point, renderDays } from "./charts.ts";
import { bar, CHART_DAYS, dayBefore, type Html, note, past, table, type View } from "./elements.ts";

/** Billed records, in money where prices are configured, and what budgets and quotas leave. */
export async function showCost({ services, status, ledger, nowMs }: View): Promise<Html> {
  const currency = services.config.prices?.currency ?? null;
  const rows = await ledger();
  const text = currency === null ? count : (value: number) => amountText(value, currency);
  const chart = {
    title: currency === null ? "Billed records per day" : `Cost per day (${currency})`,
    points: pointsOf(rows, currency),
    text,
    axisText: (value: number) => text(value).replace(/\.00$/, ""),
    form: "bars",
  } as const;
  const spent =
    rows.length === 0
      ? note("Nothing was billed in 90 days.")
      : html`<div class="charts">${renderDays(chart, nowMs)}<div>${periods(rows, currency, nowMs)}</div></div>`;
  return html`${spent}
<h3>Budgets (UTC)</h3>${budgets(status)}
<h3>Plan</h3>${plans(status, nowMs)}
<h3>Quota of the service</h3>${quotas(status, nowMs)}`;
}

function pointsOf(rows: readonly LedgerHistoryRow[], currency: string | null): readonly Point[] {
  const points = new Map<string, Point>();
  for (const { day, job, price, currency: own, recordsBilled } of rows) {
    const isPriced = price !== null && own === currency;
    const value =
      currency === null ? recordsBilled : isPriced ? Number(amountAt({ price }, recordsBilled)) : 0;
    const key = `${day} ${job}`;
    points.set(key, { day, series: job, value: value + (points.get(key)?.value ?? 0) });
  }
  return [...points.values()].filter(({ value }) => value > 0);
}

/** Sums of today, of this month and of the month before. */
function periods(rows: readonly LedgerHistoryRow[], currency: string | null, nowMs: number): Html {
  const today = dayBefore(nowMs, 0);
  const month = today.slice(0, 7);
  const before = dayBefore(Date.parse(`${month}-01T00:00:00Z`), 1).slice(0, 7);
  const sums = Object.entries({ today, "this month": month, "last month": before }).map(([name, start]) => ({
    name,
    ...costOfBilled(
      rows.filter(({ day }) => day.startsWith(start)),
      currency ?? "",
    ),
  }));
  type Sum = (typeof sums)[number];
  const costText = ({ amount, records_without_price: unpriced }: Sum) => {
    const text = amountText(amount, currency ?? "USD");
    return unpriced === 0 ? text : `${text} and ${countText(unpriced, "record")} without a price`;
  };
  return table("Billed by period (UTC)", "", sums, [
    ["period (UTC)", ({ name }) => name],
    ["records billed", (sum) => sum.records_billed, "number"],
    ...(currency === null ? [] : [["cost", costText, "number"] as const]),
    ["possibly billed", (sum) => sum.possibly_billed, "number extra"],
  ]);
}

function budgets({ budgets: found }: StatusReport): Html {
  const rows = found.map((budget) => ({ ...budget, name: `${budget.budget} per ${budget.period}` }));
  return table("Budgets", "No budget is configured: runs send everything that is due.", rows, [
    ["budget", ({ name }) => name],
    ["used", ({ used }) => used, "number"],
    [
      "limit",
      ({ limit, limit_amount: amount, currency }) => withAmount(limit, amount, currency),
      "number extra",
    ],
    ["share", ({ used, limit, name }) => bar(used, limit, `${name}: used`), "extra"],
    ["left", ({ left, left_amount: amount, currency }) => withAmount(left, amount, currency), "number"],
    [
      "projected to run out",
      ({ period, lasts_until: end }) => (end === null ? `after this ${period}` : timeText(end)),
      "extra",
    ],
    ["renewed", (budget) => timeText(budget.resets_at), "extra"],
  ]);
}

function plans({ plan_left: found }: StatusReport, nowMs: number): Html {
  const none = "No price has included_per_month, and no call was refused because the plan was used up.";
  return table("Left in the plan", none, found, [
    ["records of", ({ of }) => of],
    ["included", ({ limit }) => limit, "number extra"],
    [
      "used",
      ({ used, limit, of }) => (limit === null ? count(used) : bar(used, limit, `${of}: used`)),
      "extra",
    ],
    ["left", ({ left }) => left ?? "renewed", "number"],
    ["projected to run out", ({ lasts_until: end }) => (end === null ? "" : timeText(end))],
    ["reported by the service", ({ stated_at: at }) => (at === null ? "" : past(at, nowMs)), "extra"],
  ]);
}

function quotas({ quotas: found }: StatusReport, nowMs: number): Html {
  const known = found.flatMap(({ limit, left, observed_at: at }) =>
    limit === null || left === null ? [] : [{ limit, left, at }],
  );
  return table("Quota of person search", "No job has read a quota yet (search_usage does).", known, [
    ["quota", () => "person search per day"],
    ["limit", ({ limit }) => limit, "number"],
    ["used", ({ limit, left }) => bar(limit - left, limit, "quota of person search: used"), "extra"],
    ["left", ({ left }) => left, "number"],
    ["read", ({ at }) => past(at, nowMs), "extra"],
  ]);
}

export async function showUsage({ services, ledger, nowMs }: View): Promise<Html> {
  const { endpoints, searches } = await readUsageHistory(services.db, CHART_DAYS);
  const charts = [
    {
      title: "Records per day, as the service counts them",
      points: endpoints.map(({ day, endpoint, records }) => ({ day, series: endpoint, value: records })),
      text: count,
      form: "bars",
    },
    {
      title: "Match rate per day, from the ledger",
      points: ratesOf(await ledger()),
      text: (value: number) => `${value.toFixed(1)}%`,
      axisText: (value: number) => `${value}%`,
      form: "lines",
    },
    {
      title: "Records delivered by person search per day",
      points: searches.map(({ day, recordsDelivered: value }) => ({ day, series: "delivered", value })),
      text: count,
      form: "bars",
    },
  ] as const;
  const drawn = charts.filter(({ points }) => points.some(({ value }) => value > 0));
  if (drawn.length === 0) return note("No usage in 90 days.");
  const isReported = endpoints.length > 0;
  return html`<div class="charts">${drawn.map((chart) => renderDays(chart, nowMs))}</div>
${isReported ? "" : note("The service's own count per endpoint needs a job of type endpoint_usage.")}`;
}

/** Matches per answered record, in percent, by day and job. Answers of unlocks match nothing. */
function ratesOf(rows: readonly LedgerHistoryRow[]): readonly Point[] {
  const lookups = rows.filter(({ budget }) => budget !== "unlock");
  return [...Map.groupBy(lookups, ({ day, job }) => `${day} ${job}`).values()].flatMap((own) => {
    const [first] = own;
    const answered = own.reduce((sum, { recordsAnswered }) => sum + recordsAnswered, 0);
    const matched = own.reduce((sum, { recordsMatched }) => sum + recordsMatched, 0);
    return first && answered > 0
      ? [{ day: first.day, series: first.job, value: (100 * matched) / answered }]
      : [];
  });
}
