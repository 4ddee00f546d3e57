import { html } from "hono/html";
import { count, countText, durationText, timeText } from "../../figures.ts";
import type { JobStatusReport } from "../../jobs/report/status.ts";
import { readRecentRuns, readRunningJobs } from "../../load/history/queries.ts";
import { countRejects } from "../../load/runs/rejects.ts";
import { isSuccess } from "../../load/runs/runs.ts";
import type { PastRun } from "../../load/runs/status.ts";
import { explainReject } from "../../schemas/reject-codes.ts";
import {
  bar,
  future,
  type Html,
  note,
  past,
  prose,
  type Section,
  state,
  type StateKind,
  table,
  type TableColumn,
  type View,
} from "./elements.ts";

/** Jobs running now; the page's script replaces it while the page is open. */
export const running = {
  id: "now",
  title: "Running now",
  async show({ services, nowMs }: Pick<View, "services" | "nowMs">) {
    const { jobs, lastEndAt } = await readRunningJobs(services.db);
    const shown = table("Running jobs", "Nothing is running.", jobs, [
      { name: "job", cell: ({ job, shard }) => (shard === "0/1" ? job : `${job} (shard ${shard})`) },
      {
        name: "state",
        cell: ({ isExpired, heartbeatAt }) =>
          isExpired
            ? html`${state("warn", "no heartbeat")} since ${past(heartbeatAt, nowMs)}; the next run takes over`
            : state("busy", "running"),
      },
      {
        name: "for",
        cell: ({ since }) => durationText(Math.max(0, nowMs - Date.parse(since)) / 1000),
        isNumber: true,
      },
      { name: "sent", cell: ({ recordsSent }) => recordsSent, isNumber: true },
      { name: "due", cell: ({ recordsDue }) => recordsDue, isNumber: true },
      {
        name: "progress",
        cell: ({ job, recordsSent: sent, recordsDue: due }) =>
          sent === null || due === null
            ? ""
            : bar(sent, due, `${job}: ${count(sent)} of ${count(due)} records`),
        isExtra: true,
      },
      { name: "rows written", cell: ({ rowsWritten }) => rowsWritten, isNumber: true, isExtra: true },
      { name: "requests", cell: ({ requests }) => requests, isNumber: true, isExtra: true },
      { name: "run", cell: ({ runId }) => runId, isExtra: true },
      { name: "process", cell: ({ pid, host }) => `${pid} on ${host}`, isExtra: true },
    ]);
    return html`<div id="running" data-ended="${lastEndAt ?? ""}">${shown}</div>`;
  },
} as const satisfies Section;

/** Text and sign for the end of a run, and its rank: higher for what needs more attention. */
function runState({
  status,
  limited_by: limit,
}: {
  readonly status: string;
  readonly limited_by: string | null;
}): { readonly kind: StateKind; readonly text: string; readonly rank: number } {
  const text = limit === null ? status : `${status} (${limit})`;
  if (isSuccess({ status, limited_by: limit })) return { kind: "good", text, rank: 0 };
  if (status === "running") return { kind: "busy", text, rank: 1 };
  if (status === "failed") return { kind: "bad", text, rank: 3 };
  return { kind: "warn", text, rank: 2 };
}

/** Sign of each freshness. */
const KINDS: Readonly<Record<JobStatusReport["freshness"], StateKind>> = {
  fresh: "good",
  running: "busy",
  stale: "bad",
  never: "warn",
  off: "off",
};

/** Freshness, last run and next start of every job. */
export const jobs: Section = {
  id: "jobs",
  title: "Jobs",
  async show({ status, nowMs }) {
    return table("Jobs", "No job is configured.", status.jobs, [
      { name: "job", cell: ({ job }) => job },
      {
        name: "freshness",
        cell: ({ freshness }) => state(KINDS[freshness], freshness === "never" ? "never run" : freshness),
      },
      { name: "last success", cell: (job) => past(job.last_success_at, nowMs), isExtra: true },
      {
        name: "next start",
        cell({ enabled, next_slot_at: at }) {
          if (!enabled) return "disabled";
          return at === null ? "manual" : future(at, nowMs);
        },
      },
      {
        name: "last run",
        cell: ({ last_pass: pass, last_run: run }) =>
          pass.length === 0 ? "" : html`${lastEnd(pass)} ${past(run?.started_at ?? null, nowMs)}`,
        isExtra: true,
      },
      { name: "took", cell: tookText, isNumber: true, isExtra: true },
      { name: "still due", cell: ({ coverage }) => coverage?.due ?? null, isNumber: true, isExtra: true },
      {
        name: "rejects",
        cell: ({ open_rejects: rejects }) => Object.values(rejects).reduce((sum, rows) => sum + rows, 0),
        isNumber: true,
        isExtra: true,
      },
    ]);
  },
};

/** End of the last run; for shards, how many ended so. */
function lastEnd(pass: JobStatusReport["last_pass"]): Html {
  const states = pass.map(runState);
  const worst = states.toSorted((a, b) => b.rank - a.rank)[0];
  if (!worst) return html``;
  const same = states.filter(({ text }) => text === worst.text).length;
  return state(
    worst.kind,
    pass.length === 1 ? worst.text : `${worst.text} (${same} of ${pass.length} shards)`,
  );
}

function tookText({ last_pass: pass }: JobStatusReport): string {
  const seconds = pass.flatMap(({ started_at: from, finished_at: to }) =>
    to === null ? [] : [(Date.parse(to) - Date.parse(from)) / 1000],
  );
  return seconds.length === 0 ? "" : durationText(Math.max(...seconds));
}

/** Runs shown. */
const RUNS = 5;

/** The last runs with the counters of each job; the newest is open unless it succeeded. */
export const runs: Section = {
  id: "runs",
  title: "Last runs",
  async show({ services }) {
    const rows = await readRecentRuns(services.db, RUNS);
    if (rows.length === 0) return note("No job has run yet.");
    return html`${[...Map.groupBy(rows, (run) => run.run_id).values()].map(renderRun)}`;
  },
};

function renderRun(jobs: readonly PastRun[], at: number): Html {
  const [first] = jobs;
  const started = jobs.map((run) => run.started_at).toSorted()[0] ?? "";
  const ended = Math.max(...jobs.map((run) => Date.parse(run.finished_at ?? "")));
  const seconds = (ended - Date.parse(started)) / 1000;
  const sent = jobs.reduce((sum, run) => sum + run.records_sent, 0);
  const worst = jobs.map(runState).toSorted((a, b) => b.rank - a.rank)[0];
  const parts = [
    countText(new Set(jobs.map(({ job }) => job)).size, "job"),
    `${countText(sent, "record")} sent`,
    ...(Number.isNaN(seconds) ? [] : [durationText(seconds)]),
  ];
  return html`<details${at === 0 && worst && worst.rank > 0 ? html` open` : ""}><summary>${timeText(started)} <span>${
    worst ? state(worst.kind, worst.rank === 0 ? "succeeded" : worst.text) : ""
  }</span> <span>${parts.join(", ")}</span></summary>
${table(`Jobs of run ${first?.run_id ?? ""}`, "", jobs, columnsOfRun)}</details>`;
}

/** A counter. Most counters of most jobs are zero, which is shown more quietly. */
function figure(name: string, value: (run: PastRun) => number, isExtra = true): TableColumn<PastRun> {
  const cell = (run: PastRun) => (value(run) === 0 ? html`<span class="zero">0</span>` : value(run));
  return { name, cell, isNumber: true, isExtra };
}

const columnsOfRun: readonly TableColumn<PastRun>[] = [
  { name: "job", cell: ({ job, shard }) => (shard === "0/1" ? job : `${job} (${shard})`) },
  {
    name: "status",
    cell(run) {
      const { kind, text } = runState(run);
      if (run.error === null) return state(kind, text);
      return html`${state(kind, text)}<br><span class="error">${prose(run.error)}</span>`;
    },
  },
  figure("read", (run) => run.records_read),
  figure("unchanged", (run) => run.records_unchanged),
  figure("due", (run) => run.records_due),
  figure("sent", (run) => run.records_sent, false),
  figure("matched", (run) => run.records_matched, false),
  figure("received", (run) => run.records_received),
  figure("rejected", (run) => run.records_rejected),
  figure("remaining", (run) => run.records_remaining),
  figure("rows written", (run) => run.rows_written),
  figure("requests", (run) => run.requests),
  figure("retries", (run) => run.retries),
  {
    name: "took",
    cell: ({ started_at: from, finished_at: to }) =>
      to === null ? "" : durationText((Date.parse(to) - Date.parse(from)) / 1000),
    isNumber: true,
    isExtra: true,
  },
];

/** Open rejects by reason, with the command that retries them. */
export const rejects: Section = {
  id: "rejects",
  title: "Rejects",
  async show({ services, nowMs }) {
    const groups = await countRejects(services.db, { jobs: [], codes: [], rows: [] }, { all: false });
    return table("Open rejects", "No record is rejected.", groups, [
      { name: "job", cell: ({ job }) => job },
      { name: "rejects", cell: ({ rejects }) => rejects, isNumber: true },
      {
        name: "reason",
        cell({ code }) {
          const { means, todo } = explainReject(code);
          return html`<b>${code}</b>: ${prose(`${means} ${todo}`)}`;
        },
        isText: true,
      },
      { name: "newest", cell: ({ last_at }) => past(last_at, nowMs), isExtra: true },
      {
        name: "to retry",
        cell: ({ job, code }) => html`<code>person-etl rejects retry --job ${job} --code ${code}</code>`,
        isText: true,
      },
    ]);
  },
};
