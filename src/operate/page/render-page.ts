import { html } from "hono/html";
import { ahead, countText, timeText } from "../../figures.ts";
import type { StatusReport } from "../../jobs/report/status.ts";
import { describeForLog } from "../log-fields.ts";
import { type Html, note, prose, state } from "./elements.ts";
import { showCost } from "./sections/cost.ts";
import { showCoverage } from "./sections/coverage.ts";
import { showDestinations } from "./sections/destinations.ts";
import { showDrift } from "./sections/drift.ts";
import { showJobs } from "./sections/jobs.ts";
import { showRejects } from "./sections/rejects.ts";
import { showRunning } from "./sections/running.ts";
import { showRuns } from "./sections/runs.ts";
import { showSegments } from "./sections/segments.ts";
import { showUsage } from "./sections/usage.ts";
import type { Section, View } from "./view.ts";

/** Sections of the page, in its order. */
const sections: readonly Section[] = [
  { id: "now", title: "Running now", show: showRunning },
  { id: "jobs", title: "Jobs", show: showJobs },
  { id: "runs", title: "Last runs", show: showRuns },
  { id: "cost", title: "Cost and budgets", show: showCost },
  { id: "usage", title: "Usage and match rates", show: showUsage },
  { id: "coverage", title: "Coverage", show: showCoverage },
  { id: "segments", title: "Segments and deaths", show: showSegments },
  { id: "rejects", title: "Rejects", show: showRejects },
  { id: "destinations", title: "Destinations", show: showDestinations },
  { id: "drift", title: "Schema drift", show: showDrift },
];

/** Renders the whole page. */
export async function renderPage(view: View): Promise<Html> {
  const { status, nowMs } = view;
  const contents: Html[] = [];
  // One at a time: the page uses one connection.
  for (const section of sections) contents.push(await renderSection(section, view));
  const from = status.service_host === null ? "no data yet" : `data from ${status.service_host}`;
  return renderDocument(
    "person-etl",
    html`<a class="skip" href="#main">Skip to the content</a>
<header>
<div class="brand"><span><b>person-etl</b></span><span>${status.warehouse}, ${from}</span></div>
<h1>${glance(status)}</h1>
<p class="lead">${nextText(status, nowMs)}</p>
<nav aria-label="Sections"><ul>${sections.map(({ id, title }) => html`<li><a href="#${id}">${title}</a></li>`)}</ul></nav>
</header>
<main id="main">
${problems(status)}${contents}
</main>
<footer>As of <time datetime="${new Date(nowMs).toISOString()}">${new Date(nowMs).toISOString().slice(0, 19).replace("T", " ")} UTC</time>. All times are UTC; rest the pointer on an age to see its time.</footer>`,
  );
}

/** Renders a page with this body. */
export function renderDocument(title: string, body: Html): Html {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title}</title>
<link rel="icon" href="/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/page.css">
<script src="/page.js" defer></script>
</head>
<body>
${body}
</body>
</html>`;
}

async function renderSection({ id, title, show }: Section, view: View): Promise<Html> {
  let content: Html;
  try {
    content = await show(view);
  } catch (error) {
    view.services.log.warn({ section: id, ...describeForLog(error) }, "section_unreadable");
    content = note("This can't be read at the moment; the log has the cause.");
  }
  return html`<section id="${id}" aria-labelledby="${id}-title">
<h2 id="${id}-title">${title}</h2>
${content}
</section>
`;
}

/** Number of fresh jobs. */
function glance({ jobs, attention }: StatusReport): Html {
  const on = jobs.filter(({ enabled }) => enabled);
  const well = on.filter(({ freshness }) => freshness === "fresh" || freshness === "running").length;
  const isWell = attention.length === 0 && well === on.length;
  return state(isWell ? "good" : "warn", `${well} of ${countText(on.length, "job")} fresh`);
}

function nextText({ jobs }: StatusReport, nowMs: number): string {
  const [next] = jobs
    .flatMap(({ job, enabled, next_slot_at: at }) => (enabled && at !== null ? [{ job, at }] : []))
    .toSorted((a, b) => (a.at < b.at ? -1 : 1));
  return next
    ? `Next: ${next.job} ${ahead(next.at, nowMs)}, at ${timeText(next.at)}.`
    : "No job has a schedule.";
}

function problems({ attention, gaps, answers_left_behind: left }: StatusReport): Html {
  const found = [
    ...attention.map(({ subject, message, what_to_do: next }) => ({ subject, message, next })),
    ...gaps.map(({ job, gap_start: from, gap_end: to }) => ({
      subject: job,
      message: `Data from ${timeText(from)} to ${timeText(to)} is no longer available.`,
      next: "",
    })),
    ...left.map(({ folder, message, hint }) => ({ subject: folder, message, next: hint })),
  ];
  if (found.length === 0) return html``;
  return html`<section id="problems" aria-labelledby="problems-title">
<h2 id="problems-title">Problems</h2>
<ul class="problems">${found.map(
    ({ subject, message, next }) =>
      html`<li>${state("bad", subject)}: ${prose(message)}${next === "" ? "" : html` <span class="do">→ ${prose(next)}</span>`}</li>`,
  )}</ul>
</section>
`;
}
