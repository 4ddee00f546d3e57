import { html } from "hono/html";
import { count, countText, durationText, timeText } from "../../../figures.ts";
import { readRecentRuns } from "../../../load/history/recent-runs.ts";
import type { PastRun } from "../../../load/runs/job-status.ts";
import { type Html, note, prose, state, table } from "../elements.ts";
import { runState } from "../run-state.ts";
import type { View } from "../view.ts";

/** Runs shown. */
const RUNS = 5;

/** Renders the last runs with the counters of each job; the newest is open unless it succeeded. */
export async function showRuns({ services }: View): Promise<Html> {
  const rows = await readRecentRuns(services.db, RUNS);
  if (rows.length === 0) return note("No job has run yet.");
  const runs = [...Map.groupBy(rows, ({ runId }) => runId).values()];
  return html`${runs.map(renderRun)}`;
}

function renderRun(jobs: readonly PastRun[], at: number): Html {
  const [first] = jobs;
  const started = jobs.reduce(
    (least, { startedAt }) => (startedAt < least ? startedAt : least),
    first?.startedAt ?? "",
  );
  const ends = jobs.map(({ finishedAt }) => finishedAt);
  const seconds = (Math.max(...ends.map((end) => Date.parse(end ?? ""))) - Date.parse(started)) / 1000;
  const sent = jobs.reduce((sum, { counters }) => sum + counters.records_sent, 0);
  const worst = jobs.map(stateOf).toSorted((a, b) => b.rank - a.rank)[0];
  const many = new Set(jobs.map(({ job }) => job)).size;
  const parts = [
    countText(many, "job"),
    countText(sent, "record") + " sent",
    ...(Number.isNaN(seconds) ? [] : [durationText(seconds)]),
  ];
  return html`<details${at === 0 && worst && worst.rank > 0 ? html` open` : ""}><summary>${timeText(started)} <span>${
    worst ? state(worst.kind, worst.rank === 0 ? "succeeded" : worst.text) : ""
  }</span> <span>${parts.join(", ")}</span></summary>
${table(`Jobs of run ${first?.runId ?? ""}`, COLUMNS, jobs.map(cellsOf), "")}</details>`;
}

const stateOf = ({ status, limitedBy }: PastRun) => runState({ status, limited_by: limitedBy });

const COLUMNS = [
  { name: "job" },
  { name: "status" },
  { name: "read", isNumber: true, isExtra: true },
  { name: "unchanged", isNumber: true, isExtra: true },
  { name: "due", isNumber: true, isExtra: true },
  { name: "sent", isNumber: true },
  { name: "matched", isNumber: true },
  { name: "received", isNumber: true, isExtra: true },
  { name: "rejected", isNumber: true, isExtra: true },
  { name: "remaining", isNumber: true, isExtra: true },
  { name: "rows written", isNumber: true, isExtra: true },
  { name: "requests", isNumber: true, isExtra: true },
  { name: "retries", isNumber: true, isExtra: true },
  { name: "took", isNumber: true, isExtra: true },
] as const;

function cellsOf(run: PastRun): readonly (Html | string)[] {
  const { job, shard, startedAt, finishedAt, recordsDue, counters, error } = run;
  const { kind, text } = stateOf(run);
  const seconds = finishedAt === null ? null : (Date.parse(finishedAt) - Date.parse(startedAt)) / 1000;
  return [
    shard === "0/1" ? job : `${job} (${shard})`,
    error === null
      ? state(kind, text)
      : html`${state(kind, text)}<br><span class="error">${prose(error)}</span>`,
    ...[
      counters.records_read,
      counters.records_unchanged,
      recordsDue,
      counters.records_sent,
      counters.records_matched,
      counters.records_received,
      counters.records_rejected,
      counters.records_remaining,
      counters.rows_written,
      counters.requests,
      counters.retries,
    ].map(figure),
    seconds === null ? "" : durationText(seconds),
  ];
}

/** Most counters of most jobs are zero, which a dot shows more quietly. */
function figure(value: number): Html | string {
  return value === 0 ? html`<span class="zero">0</span>` : count(value);
}
