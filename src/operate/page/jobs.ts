import { html } from "hono/html";
import { count, countText, durationText, timeText } from "../../figures.ts";
import type { Counters } from "../../jobs/job.ts";
import { freshnessNames } from "../../jobs/report/attention.ts";
import type { JobStatusReport } from "../../jobs/report/status.ts";
import { isLookupJob } from "../../jobs/lookup/lookup-types.ts";
import { peopleChangedText } from "../../jobs/report/people-changed.ts";
import { readBriefly, readChangeOfRun, readRunningJobs } from "../../load/history/queries.ts";
import { readPossiblyBilled } from "../../load/ledger/costs.ts";
import type { PeopleChanged } from "../../load/lookups/person-history.ts";
import { countRejects } from "../../load/runs/rejects.ts";
import { type PastRun, readRecentRuns } from "../../load/runs/status.ts";
import { explainReject } from "../../schemas/reject-codes.ts";
import {
  bar,
  future,
  type Html,
  note,
  past,
  prose,
  state,
  type StateKind,
  table,
  type TableColumn,
  type View,
} from "./elements.ts";

/** Jobs running now; the page's script replaces it while the page is open. */
export async function showRunning({ services, nowMs }: Pick<View, "services" | "nowMs">): Promise<Html> {
  const { jobs, lastEndAt } = await readRunningJobs(services.db);
  const shown = table("Running jobs", "Nothing is running.", jobs, [
    ["job", ({ job, shard }) => (shard === "0/1" ? job : `${job} (shard ${shard})`)],
    [
      "state",
      ({ isExpired, heartbeatAt }) =>
        isExpired
          ? html`${state("warn", "no heartbeat")} since ${past(heartbeatAt, nowMs)}; the next run takes over`
          : state("busy", "running"),
    ],
    ["for", ({ since }) => durationText(Math.max(0, nowMs - Date.parse(since)) / 1000), "number"],
    ["sent", ({ recordsSent }) => recordsSent, "number"],
    ["due", ({ recordsDue }) => recordsDue, "number"],
    [
      "progress",
      ({ job, recordsSent: sent, recordsDue: due }) =>
        sent === null || due === null
          ? ""
          : bar(sent, due, `${job}: ${count(sent)} of ${count(due)} records`),
      "extra",
    ],
    ["rows written", ({ rowsWritten }) => rowsWritten, "number extra"],
    ["requests", ({ requests }) => requests, "number extra"],
    ["run", ({ runId }) => runId, "extra"],
    ["process", ({ pid, host }) => `${pid} on ${host}`, "extra"],
  ]);
  return html`<div id="running" data-ended="${lastEndAt ?? ""}">${shown}</div>`;
}

type Run = Pick<PastRun, "status" | "limited_by" | "started_at" | "finished_at">;

/** Text and sign for the end of a run, and its rank: higher for what needs more attention. */
function stateOf({ status, limited_by: limit }: Run) {
  const text = limit === null ? status : `${status} (${limit})`;
  if (status === "succeeded") return { kind: "good", text, rank: 0 } as const;
  if (status === "running") return { kind: "busy", text, rank: 1 } as const;
  if (status === "failed") return { kind: "bad", text, rank: 3 } as const;
  return { kind: "warn", text, rank: 2 } as const;
}

/** State that needs the most attention. */
const worstOf = (runs: readonly Run[]) => runs.map(stateOf).toSorted((a, b) => b.rank - a.rank)[0];

const KINDS: Readonly<Record<JobStatusReport["freshness"], StateKind>> = {
  fresh: "good",
  limited: "warn",
  running: "busy",
  stale: "bad",
  never: "warn",
  off: "off",
};

export async function showJobs({ status, nowMs }: View): Promise<Html> {
  return table("Jobs", "No job is configured.", status.jobs, [
    ["job", ({ job }) => job],
    ["state", ({ freshness }) => state(KINDS[freshness], freshnessNames[freshness])],
    ["last success", (job) => past(job.last_success_at, nowMs), "extra"],
    [
      "next start",
      ({ enabled, next_slot_at: at }) => {
        if (!enabled) return "disabled";
        return at === null ? "manual" : future(at, nowMs);
      },
    ],
    [
      "last run",
      ({ last_pass: pass, last_run: run }) =>
        pass.length === 0 ? "" : html`${lastEnd(pass)} ${past(run?.started_at ?? null, nowMs)}`,
      "extra",
    ],
    ["took", ({ last_pass: pass }) => tookText(pass), "number extra"],
    ["still due", ({ coverage }) => coverage?.due ?? null, "number extra"],
    [
      "rejects",
      ({ open_rejects: rejects }) => Object.values(rejects).reduce((sum, rows) => sum + rows, 0),
      "number extra",
    ],
  ]);
}

/** End of the last run; for shards, how many ended so. */
function lastEnd(pass: readonly Run[]): Html {
  const worst = worstOf(pass);
  if (!worst) return html``;
  const same = pass.filter((run) => stateOf(run).text === worst.text).length;
  const text = pass.length === 1 ? worst.text : `${worst.text} (${same} of ${pass.length} shards)`;
  return state(worst.kind, text);
}

/** Time that the longest run took. */
function tookText(runs: readonly Run[]): string {
  const seconds = runs.flatMap(({ started_at: from, finished_at: to }) =>
    to === null ? [] : [(Date.parse(to) - Date.parse(from)) / 1000],
  );
  return seconds.length === 0 ? "" : durationText(Math.max(...seconds));
}

const RUNS = 5;

/** The last runs with the counters of each job; the newest is open unless it succeeded. */
export async function showRuns({ services }: View): Promise<Html> {
  const rows = await readBriefly(services.db, (session) => readRecentRuns(session, RUNS));
  if (rows.length === 0) return note("No job has run yet.");
  const changed = await lastChange(services, rows);
  const runs = Map.groupBy(rows, (run) => run.run_id);
  const possible = await readPossiblyBilled(services.db, [...runs.keys()]);
  return html`${[...runs].map(([id, jobs], at) => {
    const possiblyBilled = possible
      // Calls in flight count once the run has ended.
      .filter(({ run_id: run }) => run === id && jobs.every(({ status }) => status !== "running"))
      .reduce((sum, { records }) => sum + records, 0);
    return renderRun(jobs, at, { possiblyBilled, changed: id === changed?.run_id ? changed : null });
  })}`;
}

/** People that the newest run that wrote answers has changed; older runs would make the page slow. */
function lastChange({ config, db }: View["services"], runs: readonly PastRun[]) {
  const lookups = config.jobs.filter(isLookupJob).map(({ name }) => name);
  const writing = runs.find(({ job, rows_written: rows }) => rows > 0 && lookups.includes(job));
  return writing && config.history.people ? readChangeOfRun(db, writing.run_id) : null;
}

interface RunExtras {
  /** Records that may have been billed without a response. */
  readonly possiblyBilled: number;
  /** Null if not read. */
  readonly changed: PeopleChanged | null;
}

function renderRun(jobs: readonly PastRun[], at: number, { possiblyBilled, changed }: RunExtras): Html {
  const [first] = jobs;
  const started = jobs.map((run) => run.started_at).toSorted()[0] ?? "";
  const ended = Math.max(...jobs.map((run) => Date.parse(run.finished_at ?? "")));
  const seconds = (ended - Date.parse(started)) / 1000;
  const sent = jobs.reduce((sum, run) => sum + run.records_sent, 0);
  const worst = worstOf(jobs);
  const parts = [
    countText(new Set(jobs.map(({ job }) => job)).size, "job"),
    `${countText(sent, "record")} sent`,
    ...(possiblyBilled === 0 ? [] : [`up to ${count(possiblyBilled)} billed without a response`]),
    ...(Number.isNaN(seconds) ? [] : [durationText(seconds)]),
  ];
  return html`<details${at === 0 && worst && worst.rank > 0 ? html` open` : ""}><summary>${timeText(started)} <span>${
    worst ? state(worst.kind, worst.text) : ""
  }</span> <span>${parts.join(", ")}</span></summary>
${changed ? note(`${peopleChangedText(changed)}.`) : ""}${table(`Jobs of run ${first?.run_id ?? ""}`, "", jobs, columnsOfRun)}</details>`;
}

/** Figure of a run. Most are zero, which is shown more quietly. */
const figure = (
  name: keyof Counters | "records_due",
  classes: "number" | "number extra" = "number extra",
): TableColumn<PastRun> => [
  name.replace("records_", "").replace("_", " "),
  (run) => run[name] || html`<span class="zero">0</span>`,
  classes,
];

const columnsOfRun: readonly TableColumn<PastRun>[] = [
  ["job", ({ job, shard }) => (shard === "0/1" ? job : `${job} (${shard})`)],
  [
    "status",
    (run) => {
      const { kind, text } = stateOf(run);
      if (run.error === null) return state(kind, text);
      return html`${state(kind, text)}<br><span class="error">${prose(run.error)}</span>`;
    },
  ],
  ...(["records_read", "records_unchanged", "records_due"] as const).map((name) => figure(name)),
  ...(["records_sent", "records_matched"] as const).map((name) => figure(name, "number")),
  ...(["records_received", "records_rejected", "records_remaining"] as const).map((name) => figure(name)),
  ...(["rows_written", "requests", "retries"] as const).map((name) => figure(name)),
  ["took", (run) => tookText([run]), "number extra"],
];

export async function showRejects({ services, nowMs }: View): Promise<Html> {
  const groups = await countRejects(services.db, { jobs: [], codes: [], rows: [] }, { all: false });
  return table("Open rejects", "No record is rejected.", groups, [
    ["job", ({ job }) => job],
    ["rejects", ({ rejects }) => rejects, "number"],
    [
      "reason",
      ({ code }) => {
        const { means, todo } = explainReject(code);
        return html`<b>${code}</b>: ${prose(`${means} ${todo}`)}`;
      },
      "text",
    ],
    ["newest", ({ last_at }) => past(last_at, nowMs), "extra"],
    [
      "to retry",
      ({ job, code }) => html`<code>person-etl rejects retry --job ${job} --code ${code}</code>`,
      "text",
    ],
  ]);
}
