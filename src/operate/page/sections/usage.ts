import { html } from "hono/html";
import { count } from "../../../figures.ts";
import type { LedgerHistoryRow } from "../../../load/history/ledger-history.ts";
import { readUsageHistory } from "../../../load/history/usage-history.ts";
import type { Point } from "../charts.ts";
import { type Html, note } from "../elements.ts";
import { renderDays } from "../draw-chart.ts";
import { CHART_DAYS, type View } from "../view.ts";

/** Renders usage and match rates of the last days. */
export async function showUsage({ services, ledger, nowMs }: View): Promise<Html> {
  const { endpoints, searches } = await readUsageHistory(services.db, CHART_DAYS);
  const rows = await ledger();
  const charts = [
    {
      title: "Records per day, as the service counts them",
      points: endpoints.map(({ day, endpoint, records }) => ({ day, series: endpoint, value: records })),
      text: count,
      form: "bars",
    },
    {
      title: "Match rate per day, from the ledger",
      points: ratesOf(rows),
      text: (value: number) => `${value.toFixed(1)} %`,
      axisText: (value: number) => `${value} %`,
      form: "lines",
    },
    {
      title: "Records delivered by person search per day",
      points: searches.map(({ day, recordsDelivered }) => ({
        day,
        series: "delivered",
        value: recordsDelivered,
      })),
      text: count,
      form: "bars",
    },
  ] as const;
  const drawn = charts.filter(({ points }) => points.some(({ value }) => value > 0));
  if (drawn.length === 0) return note("No usage in 90 days.");
  const isReported = endpoints.length > 0;
  return html`<div class="charts">${await Promise.all(drawn.map((chart) => renderDays(chart, nowMs)))}</div>
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
