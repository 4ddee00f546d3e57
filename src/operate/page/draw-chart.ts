import type { Chart } from "./charts.ts";
import type { Html } from "./elements.ts";
import { CHART_DAYS, dayBefore } from "./view.ts";

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
  const { renderChart } = await import("./charts.ts");
  const drawing = renderChart(chart);
  drawn.set(chart.title, { figures, drawing });
  return drawing;
}
