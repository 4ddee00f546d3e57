import { html } from "hono/html";
import { describeForLog } from "../../errors.ts";
import { ahead, timeText } from "../../figures.ts";
import { glanceOf } from "../../jobs/report/attention.ts";
import type { StatusReport } from "../../jobs/report/status.ts";
import type { JobServices } from "../../jobs/services.ts";
import { readLedgerHistory } from "../../load/history/queries.ts";
import { cached } from "../overview.ts";
import { CHART_DAYS, type Html, note, prose, state, type View } from "./elements.ts";
import { showCost, showUsage } from "./cost.ts";
import { showCoverage, showDestinations, showDrift, showSegments } from "./data.ts";
import { showJobs, showRejects, showRunning, showRuns } from "./jobs.ts";

/** Sections of the page, in its order: id, title, and what reads and renders the content. */
const sections: readonly (readonly [id: string, title: string, show: (view: View) => Promise<Html>])[] = [
  ["now", "Running now", showRunning],
  ["jobs", "Jobs", showJobs],
  ["runs", "Last runs", showRuns],
  ["cost", "Cost and budgets", showCost],
  ["usage", "Usage and match rates", showUsage],
  ["coverage", "Coverage", showCoverage],
  ["segments", "Segments and deaths", showSegments],
  ["rejects", "Rejects", showRejects],
  ["destinations", "Destinations", showDestinations],
  ["drift", "Schema drift", showDrift],
];

async function renderPage(view: View): Promise<Html> {
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
<nav aria-label="Sections"><ul>${sections.map(([id, title]) => html`<li><a href="#${id}">${title}</a></li>`)}</ul></nav>
</header>
<main id="main">
${problems(status)}${contents}
</main>
<footer>As of <time datetime="${new Date(nowMs).toISOString()}">${new Date(nowMs).toISOString().slice(0, 19).replace("T", " ")} UTC</time>. All times are UTC; hover over a relative time for the exact one.</footer>`,
  );
}

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

async function renderSection([id, title, show]: (typeof sections)[number], view: View): Promise<Html> {
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

/** States of the jobs. */
function glance({ jobs, attention }: StatusReport): Html {
  const { isWell, text } = glanceOf(jobs, attention);
  return state(isWell ? "good" : "warn", text);
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

export type LivePage = ReturnType<typeof createLivePage>;

/** Requests within this time share one rendering, so that many readers cost as much as one. */
const LIFE_MS = 2_000;

export function createLivePage(
  services: () => Pick<JobServices, "config" | "db" | "clock" | "log">,
  readStatus: () => Promise<StatusReport | null>,
) {
  return {
    /** Renders the whole page; null if the warehouse doesn't answer. */
    page: cached(LIFE_MS, async () => {
      const status = await readStatus();
      const { db, clock } = services();
      const ledger = cached(Number.POSITIVE_INFINITY, () => readLedgerHistory(db, CHART_DAYS));
      return status && renderPage({ services: services(), status, ledger, nowMs: clock.now() });
    }),
    running: cached(LIFE_MS, async () =>
      showRunning({ services: services(), nowMs: services().clock.now() }),
    ),
  };
}
