import { html } from "hono/html";
import { CHART_DAYS, dayBefore, type Html } from "./elements.ts";

export interface Point {
  /** `2026-11-21`; the Monday of a week. */
  readonly day: string;
  readonly series: string;
  readonly value: number;
}

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
): Html {
  const firstDay = dayBefore(nowMs, CHART_DAYS - 1);
  return renderChart({ ...chart, interval: "day", firstDay, lastDay: dayBefore(nowMs, 0) });
}

/** Series with a color of their own; the others are shown together. */
const COLORS = 6;

const OTHERS = "other";

const DAY_MS = 86_400_000;

/** Size and edges of the plot, in pixels. */
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [400, 190, 52, 392, 14, 162];

/** Renders a chart as SVG, in colors of the style sheet. */
export function renderChart(chart: Chart): Html {
  const { points, series } = foldSeries(chart);
  const { title, form, interval, text, axisText = text } = chart;
  const stepMs = interval === "week" ? 7 * DAY_MS : DAY_MS;
  const [startMs, endMs] = [Date.parse(chart.firstDay), Date.parse(chart.lastDay) + stepMs];
  const xOf = (ms: number) => LEFT + ((ms - startMs) / (endMs - startMs)) * (RIGHT - LEFT);
  const marks = marksOf(points, series, form);
  // Lengths of bars compare only from zero; lines show changes.
  const least = form === "bars" ? 0 : Math.min(...points.map(({ value }) => value));
  const ticks = ticksOf(least, Math.max(...marks.map(({ top }) => top)));
  const [low = 0, high = 1] = [ticks[0], ticks.at(-1)];
  const yOf = (value: number) => BOTTOM - ((value - low) / (high - low)) * (BOTTOM - TOP);
  const colorOf = (name: string) => `var(--series-${series.indexOf(name) + 1})`;

  const grid = ticks.map((value) => {
    const y = px(yOf(value));
    return html`<line x1="${LEFT}" x2="${RIGHT}" y1="${y}" y2="${y}" stroke="currentColor" stroke-opacity="0.2"/>
<text x="${LEFT - 6}" y="${y}" dy="4" text-anchor="end">${axisText(value)}</text>`;
  });
  const days = Array.from({ length: (endMs - startMs) / DAY_MS }, (_, at) => new Date(startMs + at * DAY_MS));
  const months = days.filter((day) => day.getUTCDate() === 1);
  const axis = months.map((day) => {
    const name = day.toLocaleString("en-US", { month: "short", timeZone: "UTC" });
    return html`<text x="${px(xOf(day.getTime()))}" y="${BOTTOM + 18}" text-anchor="middle">${name}</text>`;
  });
  const lines = (form === "lines" ? series : []).map((name) => {
    const own = points.filter((point) => point.series === name);
    const corners = own.map(({ day, value }) => `${px(xOf(Date.parse(day)))},${px(yOf(value))}`);
    return html`<polyline points="${corners.join(" ")}" fill="none" stroke="${colorOf(name)}" stroke-width="1.6"/>`;
  });
  const width = px(xOf(startMs + stepMs) - LEFT - 0.8);
  const shapes = marks.map(({ day, series: name, value, base, top }) => {
    const [x, y] = [xOf(Date.parse(day)), yOf(top)];
    const subject = `${interval === "week" ? "week of " : ""}${day}${series.length > 1 ? `, ${name}` : ""}`;
    const tip = html`<title>${subject}: ${text(value)}</title>`;
    return form === "bars"
      ? html`<rect x="${px(x + 0.4)}" y="${px(y)}" width="${width}" height="${px(yOf(base) - y)}" fill="${colorOf(name)}">${tip}</rect>`
      : html`<circle cx="${px(x)}" cy="${px(y)}" r="1.8" fill="${colorOf(name)}">${tip}</circle>`;
  });
  return html`<figure class="chart"><figcaption>${title}</figcaption>
<svg class="plot" viewBox="0 0 ${WIDTH} ${HEIGHT}" fill="currentColor" role="img" aria-label="${describe(chart)}">
${grid}${axis}${lines}${shapes}</svg>${series.length > 1 ? legend(series) : ""}</figure>`;
}

const px = (value: number) => value.toFixed(1);

/** Points with the values at which their marks begin and end; bars of a day are stacked in the order of the series. */
function marksOf(points: readonly Point[], series: readonly string[], form: Chart["form"]) {
  const tops = new Map<string, number>();
  const inOrder = points.toSorted((a, b) => series.indexOf(a.series) - series.indexOf(b.series));
  return inOrder.map((point) => {
    const base = form === "bars" ? (tops.get(point.day) ?? 0) : 0;
    tops.set(point.day, base + point.value);
    return { ...point, base, top: base + point.value };
  });
}

/** About four round values around a range: multiples of 1, 2 or 5 times a power of ten. */
function ticksOf(low: number, high: number): readonly number[] {
  const least = (high - low || Math.abs(high) || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= least) ?? 10);
  const first = Math.floor(low / step);
  const last = Math.max(first + 1, Math.ceil(high / step));
  return Array.from({ length: last - first + 1 }, (_, at) => (first + at) * step);
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
