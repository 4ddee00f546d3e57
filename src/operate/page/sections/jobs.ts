import { html } from "hono/html";
import type { JobStatusReport } from "../../../jobs/report/status.ts";
import { count, durationText } from "../../../figures.ts";
import { future, type Html, past, state, type StateKind, table } from "../elements.ts";
import { runState } from "../run-state.ts";
import type { View } from "../view.ts";

/** Sign of each freshness. */
const KINDS: Readonly<Record<JobStatusReport["freshness"], StateKind>> = {
  fresh: "good",
  running: "busy",
  stale: "bad",
  never: "warn",
  off: "off",
};

/** Renders freshness, last run and next start of every job. */
export async function showJobs({ status, nowMs }: View): Promise<Html> {
  return table(
    "Jobs",
    [
      { name: "job" },
      { name: "freshness" },
      { name: "last success", isExtra: true },
      { name: "next start" },
      { name: "last run", isExtra: true },
      { name: "took", isNumber: true, isExtra: true },
      { name: "still due", isNumber: true, isExtra: true },
      { name: "rejects", isNumber: true, isExtra: true },
    ],
    status.jobs.map((job) => [
      job.job,
      state(KINDS[job.freshness], job.freshness === "never" ? "never run" : job.freshness),
      past(job.last_success_at, nowMs),
      nextStart(job, nowMs),
      job.last_pass.length === 0
        ? ""
        : html`${lastEnd(job)} ${past(job.last_run?.started_at ?? null, nowMs)}`,
      tookText(job),
      job.coverage === null ? "" : count(job.coverage.due),
      count(Object.values(job.open_rejects).reduce((sum, rows) => sum + rows, 0)),
    ]),
    "No job is configured.",
  );
}

function nextStart(job: JobStatusReport, nowMs: number): Html | string {
  if (!job.enabled) return "disabled";
  return job.next_slot_at === null ? "manual" : future(job.next_slot_at, nowMs);
}

/** End of the last run; for shards, how many ended so. */
function lastEnd({ last_pass: pass }: JobStatusReport): Html {
  const worst = pass.map(runState).toSorted((a, b) => b.rank - a.rank)[0];
  const [shown = worst] = worst ? [worst] : [];
  if (!shown) return html``;
  const same = pass.filter((run) => runState(run).text === shown.text).length;
  return state(
    shown.kind,
    pass.length === 1 ? shown.text : `${shown.text} (${same} of ${pass.length} shards)`,
  );
}

function tookText({ last_pass: pass }: JobStatusReport): string {
  const seconds = pass.flatMap(({ started_at: from, finished_at: to }) =>
    to === null ? [] : [(Date.parse(to) - Date.parse(from)) / 1000],
  );
  return seconds.length === 0 ? "" : durationText(Math.max(...seconds));
}
