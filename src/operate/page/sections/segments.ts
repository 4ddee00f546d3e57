import { html } from "hono/html";
import { count, countText } from "../../../figures.ts";
import { readDeathWeeks } from "../../../load/history/death-weeks.ts";
import { readSegmentHistory, type SegmentDay } from "../../../load/history/segment-history.ts";
import { drawChart, renderDays } from "../draw-chart.ts";
import { type Html, note, table } from "../elements.ts";
import { CHART_DAYS, dayBefore, type View } from "../view.ts";

/** Weeks of deaths, the current one included. */
const WEEKS = 26;

/** Renders the sizes of segments, and deaths per week. */
export async function showSegments({ services, nowMs }: View): Promise<Html> {
  const days = await readSegmentHistory(services.db, CHART_DAYS);
  const deaths = await showDeaths({ services, nowMs });
  if (days.length === 0) {
    return html`${note("No job has read the members of a segment in 90 days.")}<div class="charts">${deaths}</div>`;
  }
  const points = days.map((day) => ({ day: day.day, series: nameOf(day), value: day.knownMembers }));
  const title = "Members of segments per day";
  return html`<div class="charts">${await renderDays({ title, points, text: count, form: "lines" }, nowMs)}
${deaths}</div>
${segmentTable(days)}`;
}

function segmentTable(days: readonly SegmentDay[]): Html {
  const segments = [...Map.groupBy(days, ({ segmentId }) => segmentId).values()];
  return table(
    "Segments",
    [
      { name: "segment" },
      { name: "members", isNumber: true },
      { name: "added in 90 days", isNumber: true },
      { name: "removed", isNumber: true, isExtra: true },
      { name: "removal pending", isNumber: true, isExtra: true },
    ],
    segments.map((own) => {
      const last = own.at(-1);
      return [
        last ? nameOf(last) : "",
        count(last?.knownMembers ?? 0),
        count(own.reduce((sum, { added }) => sum + added, 0)),
        count(own.reduce((sum, { removed }) => sum + removed, 0)),
        count(last?.removalsPending ?? 0),
      ];
    }),
    "",
  );
}

/** Name of a segment; the beginning of its ID if it has none. */
function nameOf({ name, segmentId }: Pick<SegmentDay, "name" | "segmentId">): string {
  return name ?? segmentId.slice(0, 8);
}

async function showDeaths({ services, nowMs }: Pick<View, "services" | "nowMs">): Promise<Html> {
  const weeks = await readDeathWeeks(services.db, WEEKS);
  if (weeks.length === 0) return note("No death was observed in 26 weeks.");
  const total = weeks.reduce((sum, { deaths }) => sum + deaths, 0);
  const daysSinceMonday = (new Date(nowMs).getUTCDay() + 6) % 7;
  return drawChart({
    title: `Deaths per week of first observation: ${countText(total, "death")} in 26 weeks`,
    points: weeks.map(({ week, deaths }) => ({ day: week, series: "deaths", value: deaths })),
    firstDay: dayBefore(nowMs, daysSinceMonday + 7 * (WEEKS - 1)),
    lastDay: dayBefore(nowMs, daysSinceMonday),
    interval: "week",
    form: "bars",
    text: count,
  });
}
