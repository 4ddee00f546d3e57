import type { Command } from "commander";
import { systemClock } from "../../clock.ts";
import {
  type JobStatusReport,
  type PastRunReport,
  readStatus,
  type StatusReport,
} from "../../jobs/report/status.ts";
import { type AddCommand, type Context, type Outcome, result } from "../command.ts";
import { aboutJob } from "./run-summary.ts";
import { cursorText } from "./checkpoint.ts";
import { ago, ahead, count, countText, durationText, megabytes, percent } from "../../figures.ts";
import { openFilled } from "../app.ts";
import { amountText } from "../../money.ts";
import { renderBudgets, uncertainty } from "../costs.ts";
import { renderTable } from "../output.ts";

/** `status`: shows the state of all jobs. */
export const addStatus: AddCommand = (program, act) => {
  program
    .command("status")
    .description(
      "show problems, last runs, freshness, coverage, checkpoints, budgets, records per day and rejects",
    )
    .action((_flags: object, command: Command) => act(command, status, { jobs: [] }));
};

async function status(context: Context): Promise<Outcome> {
  const { config, db } = await openFilled(context);
  const report = await readStatus({ config, db, clock: systemClock });
  return result(report, renderStatus(report, systemClock.now(), context.widthColumns));
}

function renderStatus(report: StatusReport, nowMs: number, widthColumns: number | null): string {
  const from = report.service_host === null ? "no data yet" : `data from ${report.service_host}`;
  return [
    [glance(report, nowMs), ...attention(report), `${report.warehouse}, ${from}`].join("\n"),
    renderJobs(report.jobs, nowMs, widthColumns),
    [...report.jobs.flatMap((job) => remarks(job)), ...leftBehind(report)].join("\n"),
    renderCheckpoints(report.jobs, nowMs, widthColumns),
    report.budgets.length === 0 ? "" : renderBudgets(report, widthColumns),
    spent(report),
    [...quotas(report), ...gaps(report)].join("\n"),
    report.days.length === 0 ? "" : renderDays(report, widthColumns),
    report.publications.length === 0 ? "" : renderPublications(report, nowMs, widthColumns),
  ]
    .filter((part) => part !== "")
    .join("\n\n");
}

/** First line: number of fresh jobs, running jobs, next slot. */
function glance({ jobs, attention: found }: StatusReport, nowMs: number): string {
  const on = jobs.filter(({ enabled }) => enabled);
  const wellCount = on.filter(({ freshness }) => freshness === "fresh" || freshness === "running").length;
  const running = on.filter(({ freshness }) => freshness === "running").map(({ job }) => job);
  const isWell = found.length === 0 && wellCount === on.length;
  const [next] = on
    .flatMap(({ job, next_slot_at }) => (next_slot_at === null ? [] : [{ job, at: next_slot_at }]))
    .toSorted((a, b) => (a.at < b.at ? -1 : 1));
  return [
    `${isWell ? "✓" : "!"} ${wellCount} of ${countText(on.length, "job")} fresh`,
    ...(running.length === 0 ? [] : [`running: ${running.join(", ")}`]),
    ...(next ? [`next: ${next.job} ${ahead(next.at, nowMs)}`] : []),
  ].join("; ");
}

function attention({ attention: found }: StatusReport): string[] {
  return found.flatMap(({ subject, message, what_to_do }) => [
    `✗ ${aboutJob(subject, message)}`,
    `  → ${what_to_do}`,
  ]);
}

function renderJobs(jobs: readonly JobStatusReport[], nowMs: number, widthColumns: number | null): string {
  return renderTable(
    [
      { name: "job" },
      { name: "fresh", drop: 2 },
      { name: "last run" },
      { name: "status" },
      { name: "last success", drop: 3 },
      { name: "next", drop: 8 },
      { name: "sent", isNumber: true, drop: 4 },
      { name: "input rows", isNumber: true, drop: 5 },
      { name: "answered", isNumber: true, drop: 7 },
      { name: "matched", isNumber: true, drop: 6 },
      { name: "due", isNumber: true },
      { name: "oldest answer", drop: 1 },
      { name: "rejects", isNumber: true },
    ],
    jobs.map(({ job, last_run, last_pass, last_success_at, coverage, open_rejects, ...report }) => [
      job,
      report.freshness,
      ago(last_run?.started_at ?? null, nowMs),
      endOfPass(last_pass),
      ago(last_success_at, nowMs),
      report.next_slot_at === null ? "manual" : ahead(report.next_slot_at, nowMs),
      last_run === null ? "" : count(last_pass.reduce((sum, run) => sum + run.records_sent, 0)),
      coverage === null ? "" : count(coverage.input_rows),
      coverage === null ? "" : percent(coverage.answered, coverage.input_rows),
      coverage === null ? "" : percent(coverage.matched, coverage.answered),
      coverage === null ? "" : count(coverage.due),
      coverage === null ? "" : ago(coverage.oldest_answer_at, nowMs),
      count(Object.values(open_rejects).reduce((sum, rows) => sum + rows, 0)),
    ]),
    widthColumns,
  );
}

/** Cost of the current month; empty without prices. */
function spent({ spent: cost }: StatusReport): string {
  if (cost === undefined) return "";
  return `Spent this month (UTC): ${amountText(cost.amount, cost.currency)}.${uncertainty(cost)}`;
}

/** Name of the search that a checkpoint belongs to; null for other checkpoints. */
function searchIn(cursor: unknown): string | null {
  const isSearch = typeof cursor === "object" && cursor !== null && "search" in cursor;
  return isSearch && typeof cursor.search === "string" ? cursor.search : null;
}

/** Renders the checkpoint of each job. */
function renderCheckpoints(
  jobs: readonly JobStatusReport[],
  nowMs: number,
  widthColumns: number | null,
): string {
  const rows = jobs.flatMap(({ job, checkpoints, segments }) =>
    checkpoints.map(({ stream, cursor, updated_at }) => {
      const name = segments.find(({ segment_id: id }) => id === stream)?.name ?? null;
      return [job, name ?? searchIn(cursor) ?? stream, cursorText(cursor), ago(updated_at, nowMs)];
    }),
  );
  const columns = [{ name: "job" }, { name: "stream" }, { name: "checkpoint" }, { name: "changed" }];
  return rows.length === 0 ? "" : renderTable(columns, rows, widthColumns);
}

function quotas({ quotas: found }: StatusReport): string[] {
  return found.flatMap(({ limit, left, observed_at }) =>
    limit === null || left === null
      ? []
      : [`• person search: ${count(left)} of ${count(limit)} records left for the day at ${observed_at}`],
  );
}

function gaps({ gaps: found }: StatusReport): string[] {
  return found.map(
    ({ job, gap_start, gap_end }) =>
      `! ${job}: data from ${gap_start} to ${gap_end} is no longer available (sync_gap)`,
  );
}

function leftBehind({ answers_left_behind }: StatusReport): string[] {
  return answers_left_behind.map(({ folder, message, hint }) => `! ${folder}: ${message}; ${hint}`);
}

function holders({ job, held_by }: JobStatusReport): string[] {
  return held_by.map(({ run_id, pid, host, shard, since, is_expired, last_heartbeat_at }) => {
    const what = shard === "0/1" ? job : `${job} (shard ${shard})`;
    const who = `run ${run_id}, process ${pid} on ${host}`;
    return is_expired
      ? `• ${what} was started by ${who}, whose last heartbeat was at ${last_heartbeat_at}; the next run takes over`
      : `• ${what} has been running since ${since} (${who})`;
  });
}

/** End of the last run; for shards each end with its count. */
function endOfPass(runs: readonly PastRunReport[]): string {
  const ends = runs.map(({ status, limited_by }) =>
    limited_by === null ? status : `${status} (${limited_by})`,
  );
  const [end] = ends;
  if (end === undefined) return "never run";
  if (ends.length === 1) return end;
  return [...new Set(ends)].map((one) => `${ends.filter((e) => e === one).length}× ${one}`).join(", ");
}

function remarks(report: JobStatusReport): string[] {
  const { job, last_pass, coverage, open_rejects, waiting_answers: waiting, segments } = report;
  const isPart = coverage !== null && coverage.shards_counted < coverage.shards;
  const rejects = Object.entries(open_rejects).map(([code, rows]) => `${countText(rows, "row")} ${code}`);
  return [
    ...holders(report),
    ...last_pass.flatMap(({ shard, error }) =>
      error === null || last_pass.length === 1 ? [] : [`✗ ${job} (shard ${shard}): ${error}`],
    ),
    ...(isPart
      ? [
          `• ${job}: input rows of ${coverage.shards_counted} of ${coverage.shards} shards; the others have not finished yet`,
        ]
      : []),
    ...segments.flatMap((segment) => segmentRemarks(job, segment)),
    ...(rejects.length === 0
      ? []
      : [`• ${job}: rejected ${rejects.join(", ")}. \`rejects list\` shows them.`]),
    ...(waiting.calls === 0
      ? []
      : [
          `• ${job}: ${countText(waiting.calls, "received answer")} (${megabytes(waiting.bytes)}) to be loaded by the next run`,
        ]),
  ];
}

function segmentRemarks(job: string, segment: JobStatusReport["segments"][number]): string[] {
  const {
    segment_id: id,
    name,
    observed_at: at,
    removals_pending: pending,
    members_in_doubt: inDoubt,
  } = segment;
  const subject = name === null ? id : `${name} (${id})`;
  return [
    ...(pending === null || pending === 0
      ? []
      : [
          `• ${job}: ${countText(pending, "member")} of ${subject} not listed at ${at}; removal not confirmed yet`,
        ]),
    ...(inDoubt === null || inDoubt === 0
      ? []
      : [`• ${job}: ${countText(inDoubt, "member")} of ${subject} in doubt; the job never removes them`]),
  ];
}

function renderDays({ days }: StatusReport, widthColumns: number | null): string {
  return renderTable(
    [
      { name: "day (UTC)" },
      { name: "job" },
      { name: "calls", isNumber: true, drop: 1 },
      { name: "sent", isNumber: true },
      { name: "matched", isNumber: true },
      { name: "rejected", isNumber: true, drop: 2 },
      { name: "billed", isNumber: true, isSparse: true },
      { name: "cost", isNumber: true, isSparse: true },
      { name: "possibly billed", isNumber: true, isSparse: true },
      { name: "possibly twice", isNumber: true, isSparse: true },
    ],
    days.map((day) => [
      day.day,
      day.job,
      count(day.calls),
      count(day.records_sent),
      count(day.records_matched),
      count(day.records_rejected),
      day.cost ? count(day.cost.records_billed) : "",
      day.cost ? amountText(day.cost.amount, day.cost.currency) : "",
      count(day.possibly_billed),
      count(day.possibly_billed_twice),
    ]),
    widthColumns,
  );
}

function renderPublications(
  { publications }: StatusReport,
  nowMs: number,
  widthColumns: number | null,
): string {
  return renderTable(
    [
      { name: "destination" },
      { name: "batch", isNumber: true, drop: 1 },
      { name: "published" },
      { name: "keys waiting", isNumber: true },
      { name: "lag", isNumber: true },
      { name: "compared", drop: 2 },
      { name: "differed", isSparse: true },
    ],
    publications.map((row) => [
      row.is_configured ? row.destination : `${row.destination} (not configured: publish --drop)`,
      count(row.batch_number),
      ago(row.last_published_at, nowMs),
      count(row.keys_waiting),
      row.lag_seconds === 0 ? "" : durationText(row.lag_seconds),
      ago(row.last_verified_at, nowMs),
      row.tables_differing?.join(", ") ?? "",
    ]),
    widthColumns,
  );
}
