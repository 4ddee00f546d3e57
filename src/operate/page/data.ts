import { html } from "hono/html";
import { count, countText, durationText, percent } from "../../figures.ts";
import {
  readDeathWeeks,
  readFieldCoverage,
  readSchemaDrift,
  readSegmentHistory,
  type SegmentDay,
  type TableCoverage,
} from "../../load/history/queries.ts";
import { renderChart, renderDays } from "./charts.ts";
import { bar, CHART_DAYS, dayBefore, type Html, note, past, state, table, type View } from "./elements.ts";

/** Share of the inputs that is answered, and of fields known of people. */
export async function showCoverage({ services, status, nowMs }: View): Promise<Html> {
  const tables = (await readFieldCoverage(services.db)).filter(({ rows }) => rows !== 0);
  const inputs = status.jobs.flatMap(({ job, coverage: own }) => (own === null ? [] : [{ job, ...own }]));
  const shown = table("Rows of inputs", "No job has read an input yet.", inputs, [
    ["job", ({ job }) => job],
    ["input", ({ source }) => source, "extra"],
    ["rows", (input) => input.input_rows, "number"],
    ["answered", (input) => percent(input.answered, input.input_rows), "number"],
    ["matched", ({ matched, answered }) => percent(matched, answered), "number"],
    ["rejected", ({ rejected }) => rejected, "number extra"],
    ["due", ({ due }) => due, "number"],
    ["oldest response", (input) => past(input.oldest_answer_at, nowMs), "extra"],
  ]);
  return html`${shown}
<h3>Fields of people</h3>${
    tables.length === 0 ? note("No people are stored yet.") : html`${tables.map(renderFields)}`
  }`;
}

function renderFields({ table: name, rows, isEstimated, fields }: TableCoverage, at: number): Html {
  if (rows === null) {
    return html`<details><summary>${name} <span>no figures</span></summary>${note(
      "The server has not collected statistics of this large table yet (ANALYZE).",
    )}</details>`;
  }
  const least = fields.toSorted((a, b) => a.rowsKnown - b.rowsKnown)[0];
  const prefix = isEstimated ? "about " : "";
  const remark = least ? `; least known: ${least.column}, ${percent(least.rowsKnown, rows)}` : "";
  return html`<details${at === 0 ? html` open` : ""}><summary>${name} <span>${prefix}${countText(rows, "row")}${remark}</span></summary>
<ul class="fields">${fields.map(
    ({
      column,
      rowsKnown,
    }) => html`<li><span>${column}</span>${bar(rowsKnown, rows, `${name}.${column}: known`)}<span class="number">${percent(rowsKnown, rows)}</span></li>
`,
  )}</ul></details>`;
}

/** Weeks of deaths, the current one included. */
const WEEKS = 26;

export async function showSegments({ services, nowMs }: View): Promise<Html> {
  const days = await readSegmentHistory(services.db, CHART_DAYS);
  const deaths = await showDeaths({ services, nowMs });
  if (days.length === 0) {
    return html`${note("No job has read the members of a segment in 90 days.")}<div class="charts">${deaths}</div>`;
  }
  const points = days.map((day) => ({ day: day.day, series: nameOf(day), value: day.knownMembers }));
  const title = "Members of segments per day";
  const grouped = [...Map.groupBy(days, ({ segmentId }) => segmentId).values()];
  const shown = grouped.flatMap((own) => {
    const last = own.at(-1);
    const added = own.reduce((sum, day) => sum + day.added, 0);
    const removed = own.reduce((sum, day) => sum + day.removed, 0);
    return last ? [{ ...last, added, removed }] : [];
  });
  return html`<div class="charts">${renderDays({ title, points, text: count, form: "lines" }, nowMs)}
${deaths}</div>
${table("Segments", "", shown, [
  ["segment", nameOf],
  ["members", ({ knownMembers }) => knownMembers, "number"],
  ["added in 90 days", ({ added }) => added, "number"],
  ["removed", ({ removed }) => removed, "number extra"],
  ["removal pending", (own) => own.removalsPending, "number extra"],
])}`;
}

/** Name of a segment; the beginning of its ID if it has none. */
function nameOf({ name, segmentId }: Pick<SegmentDay, "name" | "segmentId">): string {
  return name ?? segmentId.slice(0, 8);
}

async function showDeaths({ services, nowMs }: Pick<View, "services" | "nowMs">): Promise<Html> {
  const weeks = await readDeathWeeks(services.db, WEEKS);
  if (weeks.length === 0) return note("No deaths reported in the last 26 weeks.");
  const total = weeks.reduce((sum, { deaths }) => sum + deaths, 0);
  const daysSinceMonday = (new Date(nowMs).getUTCDay() + 6) % 7;
  return renderChart({
    title: `Deaths per week of first observation: ${countText(total, "death")} in 26 weeks`,
    points: weeks.map(({ week, deaths }) => ({ day: week, series: "deaths", value: deaths })),
    firstDay: dayBefore(nowMs, daysSinceMonday + 7 * (WEEKS - 1)),
    lastDay: dayBefore(nowMs, daysSinceMonday),
    interval: "week",
    form: "bars",
    text: count,
  });
}

export async function showDestinations({ status, nowMs }: View): Promise<Html> {
  return table("Destinations", "No destination is configured (publish).", status.publications, [
    ["destination", (row) => (row.is_configured ? row.destination : `${row.destination} (not configured)`)],
    ["published", (row) => past(row.last_published_at, nowMs)],
    ["keys waiting", (row) => row.keys_waiting, "number"],
    ["lag", ({ lag_seconds: seconds }) => (seconds === 0 ? "none" : durationText(seconds)), "number"],
    ["rows published", (row) => row.rows_published, "number extra"],
    ["compared", (row) => past(row.last_verified_at, nowMs), "extra"],
    [
      "result",
      ({ tables_differing: differing }) => {
        if (differing === null) return "";
        return differing.length === 0
          ? state("good", "equal")
          : state("bad", `differs: ${differing.join(", ")}`);
      },
      "extra",
    ],
  ]);
}

/** Fields shown, the last seen ones. */
const FIELDS = 30;

/** Fields of the service's answers that differ from their declaration. */
export async function showDrift({ services, nowMs }: View): Promise<Html> {
  const fields = await readSchemaDrift(services.db, FIELDS);
  return table("Schema drift", "No unexpected fields in responses.", fields, [
    ["field", ({ path }) => html`<code>${path}</code>`],
    ["endpoint", ({ endpoint }) => endpoint],
    ["difference", ({ kind }) => kind.replace("_", " ")],
    ["type", ({ observedType }) => observedType, "extra"],
    ["times", ({ occurrences }) => occurrences, "number"],
    ["first seen", ({ firstSeenAt }) => past(firstSeenAt, nowMs), "extra"],
    ["last seen", ({ lastSeenAt }) => past(lastSeenAt, nowMs), "extra"],
  ]);
}
