import { cursorText } from "./checkpoint.ts";
import { aboutJob } from "./run.ts";
import { openFilled } from "../app.ts";
import { type Context, type Outcome, result } from "../command.ts";
import { renderBudgets, uncertainty } from "../costs.ts";
import { joinFilled, paragraphs, table, type Text } from "../output.ts";
import { systemClock } from "../../clock.ts";
import { ago, ahead, count, countText, durationText, megabytes, percent } from "../../figures.ts";
import {
  type JobStatusReport,
  type PastRunReport,
  readStatus,
  type StatusReport,
} from "../../jobs/report/status.ts";
import { freshnessNames, glanceOf } from "../../jobs/report/attention.ts";
import { planLeftText } from "../../jobs/report/costs.ts";
import { amountText } from "../../money.ts";

export async function status(context: Context): Promise<Outcome<StatusReport>> {
  const { config, db } = await openFilled(context);
  const report = await readStatus({ config, db, clock: systemClock });
  return result(report, renderStatus(report, systemClock.now()));
}

function renderStatus(report: StatusReport, nowMs: number): Text {
  const { service_host: host, spent, jobs } = report;
  return paragraphs(
    [
      glance(report, nowMs),
      ...report.attention.flatMap(({ subject, message, what_to_do }) => [
        `✗ ${aboutJob(subject, message)}`,
        `  → ${what_to_do}`,
      ]),
      `${report.warehouse}, ${host === null ? "no data yet" : `data from ${host}`}`,
    ],
    renderJobs(jobs, nowMs),
    renderCoverage(jobs, nowMs),
    [
      ...jobs.flatMap(remarks),
      ...report.answers_left_behind.map(({ folder, message, hint }) => `! ${folder}: ${message}; ${hint}`),
    ],
    renderCheckpoints(jobs, nowMs),
    renderBudgets(report.budgets),
    spent ? `Spent this month (UTC): ${amountText(spent.amount, spent.currency)}.${uncertainty(spent)}` : "",
    [
      ...report.quotas.flatMap(({ limit, left, observed_at: at }) =>
        limit === null || left === null
          ? []
          : [`• person search: ${count(left)} of ${count(limit)} records left for the day at ${at}`],
      ),
      ...report.plan_left.map((plan) => `• ${planLeftText(plan)}`),
      ...report.gaps.map(
        ({ job, gap_start: start, gap_end: end }) =>
          `! ${job}: data from ${start} to ${end} is no longer available (sync_gap)`,
      ),
    ],
    renderDays(report),
    renderPublications(report, nowMs),
  );
}

/** First line: states of the jobs, running jobs, next slot. */
function glance({ jobs, attention }: StatusReport, nowMs: number): string {
  const on = jobs.filter(({ enabled }) => enabled);
  const running = on.filter(({ freshness }) => freshness === "running").map(({ job }) => job);
  const { isWell, text } = glanceOf(jobs, attention);
  const [next] = on
    .flatMap(({ job, next_slot_at: at }) => (at === null ? [] : [{ job, at }]))
    .toSorted((a, b) => (a.at < b.at ? -1 : 1));
  const parts = [
    `${isWell ? "✓" : "!"} ${text}`,
    running.length === 0 ? "" : `running: ${running.join(", ")}`,
    next ? `next: ${next.job} ${ahead(next.at, nowMs)}` : "",
  ];
  return joinFilled(parts, "; ");
}

function renderJobs(jobs: readonly JobStatusReport[], nowMs: number): Text {
  return table(jobs, {
    job: ({ job }) => job,
    state: ({ freshness }) => freshnessNames[freshness],
    "last run": ({ last_run: last }) => ago(last?.started_at ?? null, nowMs),
    ended: ({ last_pass: runs }) => endOfPass(runs),
    "last success": ({ last_run: last, last_success_at: at }) =>
      last === null || last.status === "succeeded" ? null : ago(at, nowMs),
    next: ({ next_slot_at: at }) => (at === null ? "manual" : ahead(at, nowMs)),
    rejects: ({ open_rejects: open }) => Object.values(open).reduce((sum, rows) => sum + rows, 0),
  });
}

/** End of the last run; for shards each end with its count. */
function endOfPass(runs: readonly PastRunReport[]): string {
  const ends = runs.map(({ status: end, limited_by }) =>
    limited_by === null ? end : `${end} (${limited_by})`,
  );
  if (ends.length <= 1) return ends[0] ?? "never run";
  return [...Map.groupBy(ends, (end) => end)].map(([end, all]) => `${all.length}× ${end}`).join(", ");
}

function renderCoverage(all: readonly JobStatusReport[], nowMs: number): Text {
  const rows = all.flatMap(({ job, coverage, last_pass: runs }) =>
    coverage === null
      ? []
      : [{ ...coverage, job, sent: runs.reduce((sum, run) => sum + run.records_sent, 0) }],
  );
  return table(rows, {
    "coverage of": ({ job }) => job,
    "input rows": (row) => row.input_rows,
    processed: (row) => percent(row.answered, row.input_rows),
    matched: (row) => percent(row.matched, row.answered),
    "last sent": ({ sent }) => sent,
    due: ({ due }) => due,
    oldest: (row) => ago(row.oldest_answer_at, nowMs),
  });
}

function remarks(report: JobStatusReport): readonly string[] {
  const { job, last_pass, coverage, open_rejects, waiting_answers: waiting } = report;
  const rejects = Object.entries(open_rejects).map(([code, rows]) => `${countText(rows, "row")} (${code})`);
  const shardErrors = last_pass.length === 1 ? [] : last_pass.filter(({ error }) => error !== null);
  return [
    ...report.held_by.map(({ run_id, pid, host, shard, since, is_expired, last_heartbeat_at }) => {
      const what = shard === "0/1" ? job : `${job} (shard ${shard})`;
      const who = `run ${run_id}, process ${pid} on ${host}`;
      return is_expired
        ? `• ${what} was started by ${who}, whose last heartbeat was at ${last_heartbeat_at}; the next run takes over`
        : `• ${what} has been running since ${since} (${who})`;
    }),
    ...shardErrors.map(({ shard, error }) => `✗ ${job} (shard ${shard}): ${error}`),
    coverage !== null && coverage.shards_counted < coverage.shards
      ? `• ${job}: input rows of ${coverage.shards_counted} of ${coverage.shards} shards; the others have not finished yet`
      : "",
    ...report.segments.flatMap(({ segment_id: id, name, ...segment }) => {
      const subject = name === null ? id : `${name} (${id})`;
      const { removals_pending: pending, members_in_doubt: inDoubt, observed_at: at } = segment;
      return [
        pending
          ? `• ${job}: ${countText(pending, "member")} of ${subject} not listed at ${at}; removal not confirmed yet`
          : "",
        inDoubt
          ? `• ${job}: ${countText(inDoubt, "member")} of ${subject} unconfirmed, because a call had no response; the job never removes them`
          : "",
      ];
    }),
    report.possibly_billed === 0
      ? ""
      : `! ${job}: up to ${countText(report.possibly_billed, "record")} of the last run may have been billed without a response`,
    rejects.length === 0 ? "" : `• ${job}: rejected ${rejects.join(", ")}. \`rejects list\` shows them.`,
    waiting.calls === 0
      ? ""
      : `• ${job}: ${countText(waiting.calls, "received response")} (${megabytes(waiting.bytes)}) to be loaded by the next run`,
  ];
}

/** Name of the search that a checkpoint belongs to; null for other checkpoints. */
function searchIn(cursor: unknown): string | null {
  const isSearch = typeof cursor === "object" && cursor !== null && "search" in cursor;
  return isSearch && typeof cursor.search === "string" ? cursor.search : null;
}

function renderCheckpoints(jobs: readonly JobStatusReport[], nowMs: number): Text {
  const rows = jobs.flatMap(({ job, checkpoints, segments }) =>
    checkpoints.map((checkpoint) => ({ ...checkpoint, job, segments })),
  );
  return table(rows, {
    job: ({ job }) => job,
    stream: ({ stream, cursor, segments }) =>
      segments.find(({ segment_id: id }) => id === stream)?.name ?? searchIn(cursor) ?? stream,
    checkpoint: ({ cursor }) => cursorText(cursor),
    changed: (row) => ago(row.updated_at, nowMs),
  });
}

function renderDays({ days }: StatusReport): Text {
  return table(days, {
    "day (UTC)": ({ day }) => day,
    job: ({ job }) => job,
    calls: ({ calls }) => calls,
    sent: (day) => day.records_sent,
    matched: (day) => day.records_matched,
    rejected: (day) => day.records_rejected,
    billed: ({ cost }) => cost?.records_billed ?? null,
    cost: ({ cost }) => (cost ? amountText(cost.amount, cost.currency) : null),
    "possibly billed": (day) => day.possibly_billed || null,
    "possibly twice": (day) => day.possibly_billed_twice || null,
  });
}

function renderPublications({ publications }: StatusReport, nowMs: number): Text {
  return table(publications, {
    destination: ({ destination, is_configured: isConfigured }) =>
      isConfigured ? destination : `${destination} (not configured: publish --drop)`,
    batch: (row) => row.batch_number,
    published: (row) => ago(row.last_published_at, nowMs),
    "keys waiting": (row) => row.keys_waiting,
    lag: ({ lag_seconds: lag }) => (lag === 0 ? "0" : durationText(lag)),
    "last verified": (row) => ago(row.last_verified_at, nowMs),
    differed: (row) => row.tables_differing?.join(", ") ?? null,
  });
}
