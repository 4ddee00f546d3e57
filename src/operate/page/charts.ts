import { html, raw } from "hono/html";
import { CHART_DAYS, dayBefore, type Html } from "./elements.ts";

/** One value of a chart. */
export interface Point {
  /** `2026-11-21`; the Monday of a week. */
  readonly day: string;
  readonly series: string;
  readonly value: number;
}

/** Contents of a chart. */
interface Chart {
  readonly title: string;
  readonly points: readonly Point[];
  /** Inclusive. */
  readonly firstDay: string;
  /** Inclusive. */
  readonly lastDay: string;
  readonly interval: "day" | "week";
  readonly form: "bars" | "lines";
  /** Formats a value for tooltips and, without `axisText`, for the axis. */
  readonly text: (value: number) => string;
  readonly axisText?: (value: number) => string;
}

/** Renders a chart of the last days, today included. */
export function renderDays(
  chart: Pick<Chart, "title" | "points" | "text" | "axisText" | "form">,
  nowMs: number,
): Promise<Html> {
  return drawChart({
    ...chart,
    interval: "day",
    firstDay: dayBefore(nowMs, CHART_DAYS - 1),
    lastDay: dayBefore(nowMs, 0),
  });
}

/** Last rendering of each chart: most readings find the figures of the one before. */
const drawn = new Map<string, { readonly figures: string; readonly drawing: Html }>();

/** Renders a chart. Its library is loaded with the first one, because a scheduler that no one looks at doesn't need it. */
export async function drawChart(chart: Chart): Promise<Html> {
  const figures = JSON.stringify(chart);
  const known = drawn.get(chart.title);
  if (known?.figures === figures) return known.drawing;
  const drawing = await renderChart(chart);
  drawn.set(chart.title, { figures, drawing });
  return drawing;
}

/** Loads the library of charts. */
export function loadPlot() {
  return Promise.all([import("@observablehq/plot"), import("linkedom")]);
}

/** Series with a color of their own; the others are shown together. */
const COLORS = 6;

const OTHERS = "other";

const SIZE = { width: 400, height: 190, marginLeft: 52, marginRight: 8, marginTop: 14, marginBottom: 28 };

/** Renders a chart as SVG, in colors of the style sheet. */
async function renderChart(chart: Chart): Promise<Html> {
  const [Plot, { parseHTML }] = await loadPlot();
  const { points, series } = foldSeries(chart);
  const { interval, text, form } = chart;
  const data = points.map((point) => ({ ...point, date: new Date(`${point.day}T00:00:00Z`) }));
  const end = new Date(`${chart.lastDay}T00:00:00Z`);
  end.setUTCDate(end.getUTCDate() + (interval === "week" ? 7 : 1));
  const tip = ({ day, series: name, value }: Point) =>
    `${interval === "week" ? "week of " : ""}${day}${series.length > 1 ? `, ${name}` : ""}: ${text(value)}`;
  const marks =
    form === "bars"
      ? [
          Plot.rectY(
            data,
            Plot.stackY({
              x: "date",
              y: "value",
              interval: interval === "week" ? "monday" : "day",
              z: "series",
              fill: "series",
              order: [...series],
              title: tip,
              insetLeft: 0.4,
              insetRight: 0.4,
            }),
          ),
          Plot.ruleY([0]),
        ]
      : [
          Plot.lineY(data, { x: "date", y: "value", z: "series", stroke: "series", strokeWidth: 1.6 }),
          Plot.dot(data, { x: "date", y: "value", fill: "series", r: 1.8, title: tip }),
        ];
  const svg = Plot.plot({
    ...SIZE,
    document: parseHTML("<!doctype html><html><body></body></html>").document,
    className: "plot",
    x: { type: "utc", domain: [new Date(`${chart.firstDay}T00:00:00Z`), end], label: null, ticks: 4 },
    y: {
      grid: true,
      label: null,
      // Lengths of bars compare only from zero; lines show changes.
      zero: form === "bars",
      nice: true,
      ticks: 4,
      tickSize: 0,
      tickFormat: chart.axisText ?? text,
    },
    color: { domain: series, range: series.map((_, at) => `var(--series-${at + 1})`) },
    marks,
  });
  // The style sheet has these rules; the page's policy forbids them here.
  svg.querySelector("style")?.remove();
  // An image has one description; those of its parts would contradict its role.
  for (const part of svg.querySelectorAll("[aria-label]")) part.removeAttribute("aria-label");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", describe(chart));
  return html`<figure class="chart"><figcaption>${chart.title}</figcaption>
${raw(svg.outerHTML)}${series.length > 1 ? legend(series) : ""}</figure>`;
}

/** Series by their sum, largest first; those without a color of their own as one. */
function foldSeries({ points, form }: Chart): {
  readonly points: readonly Point[];
  readonly series: readonly string[];
} {
  const sums = new Map<string, number>();
  for (const { series, value } of points) sums.set(series, (sums.get(series) ?? 0) + value);
  const names = [...sums.keys()].toSorted(
    (a, b) => (sums.get(b) ?? 0) - (sums.get(a) ?? 0) || (a < b ? -1 : 1),
  );
  if (names.length <= COLORS) return { points, series: names };
  const own = names.slice(0, COLORS - 1);
  // Rates of several series have no sum.
  if (form === "lines") return { points: points.filter(({ series }) => own.includes(series)), series: own };
  const folded = new Map<string, Point>();
  for (const point of points) {
    const series = own.includes(point.series) ? point.series : OTHERS;
    const key = `${point.day} ${series}`;
    folded.set(key, { day: point.day, series, value: point.value + (folded.get(key)?.value ?? 0) });
  }
  return { points: [...folded.values()], series: [...own, OTHERS] };
}

function legend(series: readonly string[]): Html {
  return html`<ul class="legend">${series.map(
    (name, at) => html`<li><span class="key key-${at + 1}" aria-hidden="true"></span>${name}</li>`,
  )}</ul>`;
}

/** Text for screen readers. */
function describe({ title, points, text, firstDay, lastDay }: Chart): string {
  const highest = points.reduce<Point | null>(
    (top, point) => (top && top.value >= point.value ? top : point),
    null,
  );
  const peak =
    highest === null ? "" : `; highest ${text(highest.value)} on ${highest.day} (${highest.series})`;
  return `${title}, ${firstDay} to ${lastDay}${peak}`;
}
