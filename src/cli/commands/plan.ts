import { createSampleTables } from "./sandbox.ts";
import { openConfig, openWarehouseOf } from "../app.ts";
import { type Context, dataResult, type Outcome, result } from "../command.ts";
import { renderBudgets } from "../costs.ts";
import { paragraphs, table, type Text } from "../output.ts";
import { systemClock } from "../../clock.ts";
import { limitText } from "../../advice.ts";
import { count, countText, durationText } from "../../figures.ts";
import type { JobPlan, ShownRequest } from "../../jobs/job-type.ts";
import { selectJobs } from "../../jobs/job-selection.ts";
import { billableText } from "../../jobs/lookup/estimate.ts";
import { lookupTypes } from "../../jobs/lookup/lookup-types.ts";
import { costText } from "../../jobs/price.ts";
import { meaningOf } from "../../jobs/report/explain-row.ts";
import { planJobs, type PlanReport } from "../../jobs/report/plan.ts";
import { type Shard, shareLimits, wholeInput } from "../../jobs/services.ts";
import type { DueReason } from "../../load/lookups/counts.ts";
import { amountText } from "../../money.ts";

interface PlanFlags {
  readonly resend?: boolean;
  readonly maxRecords?: number;
  readonly shard?: Shard;
  readonly show?: number;
}

export async function plan(
  context: Context,
  flags: PlanFlags,
  names: readonly string[],
): Promise<Outcome<PlanReport>> {
  const { shard = wholeInput, resend = false, maxRecords = null, show = 0 } = flags;
  const config = shareLimits(await openConfig(context), shard);
  const jobs = selectJobs(config, names);
  const { db } = await openWarehouseOf(context, config);
  await createSampleTables(config, jobs, db, context);
  const options = { shard, resend, maxRecords, show };
  const report = await planJobs({ config, db, clock: systemClock }, names, options);
  return (show > 0 ? dataResult : result)(report, renderPlan(report, show));
}

/** @param show number of records to show of each job's first request */
function renderPlan(report: PlanReport, show: number): Text {
  const { jobs, budgets } = report;
  const isHinted = jobs.some((job) => job.records_to_send > 0 && job.requests === undefined);
  const hint = isHinted ? " `plan --show 1` prints the first record of each job." : "";
  return paragraphs(
    ...jobs.flatMap((job) => renderRequests(job, show)),
    renderRows(jobs),
    renderCost(report),
    ...jobs.map(renderRemarks),
    renderBudgets(budgets),
    report.assumption ?? "",
    `Nothing was sent or billed.${hint}`,
  );
}

function renderRequests(job: JobPlan, show: number): readonly string[] {
  const { requests, records_waiting: waiting } = job;
  if (requests?.length === 0) {
    const why =
      waiting > 0 ? ` yet, because ${countText(waiting, "row waits", "rows wait")} for another job` : "";
    return [`${job.job}: no request${why}.`];
  }
  return (requests ?? []).slice(0, 1).map((request) => {
    const body: { readonly records?: unknown } = request.body;
    const { records } = body;
    if (!Array.isArray(records) || records.length <= show) {
      const title = `${job.job}: request 1 of ${count(job.calls)}, ${countText(request.records, "record")}`;
      return `${title}\n${renderRequest(request)}`;
    }
    const shown = { ...request, body: { ...body, records: records.slice(0, show) } };
    const part = `${show === 1 ? "the first" : `the first ${count(show)}`} of ${countText(records.length, "record")}`;
    const title = `${job.job}: request 1 of ${count(job.calls)}, ${part} (with --json: whole requests)`;
    return `${title}\n${renderRequest(shown)}`;
  });
}

/** Formats a request as valid JSON with one record per line. */
export function renderRequest({
  method,
  path,
  body,
}: Pick<ShownRequest, "method" | "path" | "body">): string {
  const members = Object.entries(body).map(([name, value]) => {
    const records = name === "records" && Array.isArray(value) && value.length > 1 ? value : null;
    const lines = records?.map((record) => `    ${JSON.stringify(record)}`).join(",\n");
    return `  ${JSON.stringify(name)}: ${lines === undefined ? JSON.stringify(value) : `[\n${lines}\n  ]`}`;
  });
  return [`${method} ${path}`, "{", members.join(",\n"), "}"].join("\n");
}

/** Ends of an input row, which sum to the rows read; shown if not zero for all jobs. */
const ENDS: Readonly<Record<string, (job: JobPlan) => number>> = {
  unchanged: (job) => job.records_unchanged,
  suppressed: (job) => job.records_suppressed,
  rejected: (job) => job.records_rejected_before_sending,
  waiting: (job) => job.records_waiting,
  duplicate: (job) => job.records_duplicate,
  remaining: (job) => job.records_remaining,
  "to send": (job) => job.records_to_send,
};

function renderRows(plans: readonly JobPlan[]): readonly Text[] {
  const jobs = plans.filter((job) => lookupTypes.some(({ type }) => type === job.type));
  if (jobs.length === 0) return [];
  const ends = Object.entries(ENDS).filter(([, end]) => jobs.some((job) => end(job) > 0));
  const columns = {
    "input rows": ({ job }: JobPlan) => job,
    read: (job: JobPlan) => job.records_read,
    ...Object.fromEntries(ends),
  };
  const isContinued = jobs.some(
    (job) => job.records_waiting > 0 && job.records_expected > job.records_to_send,
  );
  return [
    table(jobs, columns),
    ends.length < 2 ? "" : `Rows read = ${ends.map(([name]) => name).join(" + ")}`,
    isContinued ? "Waiting rows are sent later in the same run, and included below." : "",
  ];
}

function renderCost({ jobs, estimated_cost: cost }: PlanReport): Text {
  const sum = (value: (job: JobPlan) => number) => jobs.reduce((total, job) => total + value(job), 0);
  const rows = jobs.map((job) => ({
    name: job.job,
    records: job.records_expected,
    calls: job.calls,
    billed: job.estimated_billable.expected,
    cost: job.estimated_cost,
    seconds: job.calls === 0 ? null : job.estimated_seconds,
  }));
  const total = {
    name: "total",
    records: sum((job) => job.records_expected),
    calls: sum((job) => job.calls),
    billed: sum((job) => job.estimated_billable.expected),
    cost,
    seconds: null,
  };
  return table(jobs.length === 1 ? rows : [...rows, total], {
    "this run": ({ name }) => name,
    records: ({ records }) => records,
    calls: ({ calls }) => calls,
    "billed (est.)": ({ billed }) => billed,
    "cost (est.)": (row) => (row.cost ? amountText(row.cost.expected, row.cost.currency) : null),
    "time (est.)": ({ seconds }) => (seconds === null ? null : durationText(seconds)),
  });
}

/** Reasons why records are due, by their name in `--json`. */
const DUE_TEXTS: Readonly<Record<string, string>> = {
  never_answered: "not processed yet",
  content_changed: "changed",
  retried: "to retry",
  pid_changed: "with a new PID",
  expired: "expired",
  parameters_changed: "processed with other parameters",
  resend: "to resend",
} satisfies Record<DueReason, string>;

/** Remarks on one job, under its name; empty if there is nothing to explain. */
function renderRemarks(job: JobPlan): string {
  const { records_remaining: remaining, records_suppressed: suppressed, waiting_answers: waiting } = job;
  const isSending = job.records_expected > 0;
  const reasons = Object.entries(job.due_reasons).filter(([, rows]) => rows > 0);
  const due = reasons.map(([reason, rows]) => `${count(rows)} ${DUE_TEXTS[reason] ?? reason}`).join(", ");
  const lines = [
    due === "" ? "" : `due: ${due}`,
    isSending ? `billed: ${billableText(job.estimated_billable)} (${job.estimated_billable.basis})` : "",
    isSending && job.estimated_cost ? `cost: ${costText(job.estimated_cost)}` : "",
    job.limited_by === null
      ? ""
      : remaining > 0
        ? `remaining: ${countText(remaining, "row")} for later runs (stops at ${limitText(job.limited_by)})`
        : `stops at ${limitText(job.limited_by)}`,
    ...Object.entries(job.reject_reasons).map(
      ([code, rows]) => `rejected: ${countText(rows, "row")} (${code}). ${meaningOf(code)}`,
    ),
    suppressed > 0 ? `suppressed: ${countText(suppressed, "row")} of erased people will not be sent` : "",
    ...job.remarks,
    waiting.calls > 0
      ? `fewer, because ${countText(waiting.calls, "response")} received by earlier runs will be loaded first`
      : "",
  ].filter((line) => line !== "");
  return lines.length === 0 ? "" : [job.job, ...lines.map((line) => `  • ${line}`)].join("\n");
}
