import type { Command } from "commander";
import { type AddCommand, type Context, type Outcome, parseShard, result, wholeNumber } from "../command.ts";
import { renderBudgets } from "../costs.ts";
import { openConfig, openConfiguredWarehouse } from "../app.ts";
import { createSampleTables } from "./sandbox.ts";
import { type Column, renderTable } from "../output.ts";
import { systemClock } from "../../clock.ts";
import { count, countText, durationText } from "../../figures.ts";
import { selectJobs } from "../../jobs/job-selection.ts";
import { billableText } from "../../jobs/lookup/estimate.ts";
import { lookupTypes } from "../../jobs/lookup/lookup-types.ts";
import { costText } from "../../jobs/price.ts";
import type { JobPlan, ShownRequest } from "../../jobs/job-type.ts";
import { planJobs, type PlanReport } from "../../jobs/report/plan.ts";
import { meaningOf } from "../../jobs/report/explain-row.ts";
import { type Shard, shareLimits, wholeInput } from "../../jobs/services.ts";
import { amountText } from "../../money.ts";

interface PlanFlags {
  readonly resend?: boolean;
  readonly maxRecords?: number;
  readonly shard?: Shard;
  readonly show?: number;
}

/** Requests that are held in memory at once per job. */
const MAX_SHOWN = 10;

/** `plan`: predicts what a run would do. */
export const addPlan: AddCommand = (program, act) => {
  program
    .command("plan")
    .description(
      "predict a run: due records and reasons, calls, estimated billed records and duration; sends nothing",
    )
    .argument("[jobs...]", "configured jobs (default: all)")
    .option("--resend", "predict `run --resend`")
    .option("--max-records <n>", "predict `run --max-records n`", wholeNumber(0))
    .option("--shard <i/n>", "predict `run --shard i/n`", parseShard)
    .option(
      "--show <n>",
      "print the first n requests of each job, with the personal data in them",
      wholeNumber(1, MAX_SHOWN),
    )
    .action((jobs: string[], flags: PlanFlags, command: Command) =>
      act(command, (context) => plan(context, jobs, flags), { jobs: [] }),
    );
};

async function plan(context: Context, names: readonly string[], flags: PlanFlags): Promise<Outcome> {
  const shard = flags.shard ?? wholeInput;
  const config = shareLimits(await openConfig(context), shard);
  const jobs = selectJobs(config, names);
  const { db } = await openConfiguredWarehouse(context, config);
  // Creating sample tables is safe in the embedded database, and without them there is nothing to plan.
  if (config.service.baseUrl === "sandbox" && config.warehouse.url === "embedded") {
    await createSampleTables(config, jobs, db, context);
  }
  const report = await planJobs({ config, db, clock: systemClock }, names, {
    shard,
    resend: flags.resend === true,
    maxRecords: flags.maxRecords ?? null,
    show: flags.show ?? 0,
  });
  return result(report, renderPlan(report, context.widthColumns));
}

/** Ends of an input row, which sum to the rows read; shown if not zero for all jobs. */
const ENDS = [
  { name: "unchanged", value: (job: JobPlan) => job.records_unchanged },
  { name: "suppressed", value: (job: JobPlan) => job.records_suppressed },
  { name: "rejected", value: (job: JobPlan) => job.records_rejected_before_sending },
  { name: "waiting", value: (job: JobPlan) => job.records_waiting },
  { name: "duplicate", value: (job: JobPlan) => job.records_duplicate },
  { name: "remaining", value: (job: JobPlan) => job.records_remaining },
  { name: "to send", value: (job: JobPlan) => job.records_to_send },
];

/** Formats a plan: the requests to show, the rows of the inputs, the cost, and remarks. */
export function renderPlan(report: PlanReport, widthColumns: number | null): string {
  const { jobs, budgets } = report;
  const readers = jobs.filter((job) => lookupTypes.some(({ type }) => type === job.type));
  return [
    ...jobs.flatMap(renderRequests),
    renderRows(readers, widthColumns),
    renderCost(report, widthColumns),
    ...jobs.flatMap((job) => renderRemarks(job)),
    budgets.length === 0 ? "" : renderBudgets(report, widthColumns),
    ending(jobs),
  ]
    .filter((part) => part !== "")
    .join("\n\n");
}

/** Formats a request as valid JSON with one record per line. */
export function renderRequest({
  method,
  path,
  body,
}: Pick<ShownRequest, "method" | "path" | "body">): string {
  const members = Object.entries(body).map(
    ([name, value]) =>
      `  ${JSON.stringify(name)}: ${name === "records" ? recordsText(value) : JSON.stringify(value)}`,
  );
  return [`${method} ${path}`, "{", members.join(",\n"), "}"].join("\n");
}

function recordsText(records: unknown): string {
  if (!Array.isArray(records) || records.length === 1) return JSON.stringify(records);
  const lines = records.map((record) => `    ${JSON.stringify(record)}`);
  return ["[", lines.join(",\n"), "  ]"].join("\n");
}

function renderRows(jobs: readonly JobPlan[], widthColumns: number | null): string {
  if (jobs.length === 0) return "";
  const ends = ENDS.filter(({ value }) => jobs.some((job) => value(job) > 0));
  const figures = [{ name: "read", value: (job: JobPlan) => job.records_read }, ...ends];
  const names = figures.map(({ name }) => name);
  const rows = jobs.map((job) => [job.job, ...figures.map(({ value }) => count(value(job)))]);
  const turned = figures.map(({ name, value }) => [name, ...jobs.map((job) => count(value(job)))]);
  const wide = renderTable(rowColumns(names), rows, null);
  const tall = renderTable(rowColumns(jobs.map(({ job }) => job)), turned, null);
  const table =
    [wide, tall].find((text) => fits(text, widthColumns)) ??
    renderTable(rowColumns(names), rows, widthColumns);
  return `${table}\n(read = ${ends.map(({ name }) => name).join(" + ")})`;
}

function rowColumns(names: readonly string[]): readonly Column[] {
  return [{ name: "input rows" }, ...names.map((name) => ({ name, isNumber: true }))];
}

function fits(text: string, widthColumns: number | null): boolean {
  return widthColumns === null || text.split("\n").every((line) => line.length <= widthColumns);
}

function renderCost({ jobs, estimated_cost: cost }: PlanReport, widthColumns: number | null): string {
  const sum = (value: (job: JobPlan) => number) => count(jobs.reduce((total, job) => total + value(job), 0));
  const rows = jobs.map((job) => [
    job.job,
    count(job.records_expected),
    count(job.calls),
    count(job.estimated_billable.expected),
    job.estimated_cost ? amountText(job.estimated_cost.expected, job.estimated_cost.currency) : "",
    job.calls === 0 ? "" : durationText(job.estimated_seconds),
  ]);
  const total = [
    "total",
    sum((job) => job.records_expected),
    sum((job) => job.calls),
    sum((job) => job.estimated_billable.expected),
    cost ? amountText(cost.expected, cost.currency) : "",
    "",
  ];
  return renderTable(
    [
      { name: "this run" },
      { name: "records", isNumber: true },
      { name: "calls", isNumber: true },
      { name: "billed (est.)", isNumber: true },
      { name: "cost (est.)", isNumber: true, isSparse: true },
      { name: "time (est.)", isNumber: true },
    ],
    jobs.length === 1 ? rows : [...rows, total],
    widthColumns,
  );
}

/** Remarks on one job, under its name; none if there is nothing to explain. */
function renderRemarks(job: JobPlan): readonly string[] {
  const reasons = Object.entries(job.due_reasons)
    .filter(([, rows]) => rows > 0)
    .map(([reason, rows]) => `${count(rows)} ${reason.replaceAll("_", " ")}`);
  const lines = [
    ...(reasons.length > 0 ? [`due: ${reasons.join(", ")}`] : []),
    ...(job.records_expected > 0
      ? [`billed: ${billableText(job.estimated_billable)}, ${job.estimated_billable.basis}`]
      : []),
    ...(job.estimated_cost && job.records_expected > 0 ? [`cost: ${costText(job.estimated_cost)}`] : []),
    ...(job.limited_by === null ? [] : [remainingText(job, job.limited_by)]),
    ...Object.entries(job.reject_reasons).map(
      ([code, rows]) => `rejected: ${count(rows)} ${code.replaceAll("_", " ")}. ${meaningOf(code)}`,
    ),
    ...(job.records_suppressed > 0
      ? [`suppressed: ${countText(job.records_suppressed, "row")} of erased people, never sent`]
      : []),
    ...job.remarks,
    ...(job.waiting_answers.calls > 0
      ? [
          `fewer, because ${countText(job.waiting_answers.calls, "answer")} received by earlier runs will be loaded first`,
        ]
      : []),
  ];
  return lines.length === 0 ? [] : [[job.job, ...lines.map((line) => `  • ${line}`)].join("\n")];
}

function remainingText({ records_remaining: rows }: JobPlan, limit: string): string {
  return rows > 0 ? `remaining: ${countText(rows, "row")} for later runs (${limit})` : `limited by ${limit}`;
}

function renderRequests(job: JobPlan): readonly string[] {
  const { requests, records_waiting: waiting } = job;
  if (requests === undefined) return [];
  if (requests.length === 0) {
    return [
      `${job.job}: no request${waiting > 0 ? ` yet, because ${countText(waiting, "row waits", "rows wait")} for another job` : ""}.`,
    ];
  }
  return requests.map((request, i) => {
    const title = `${job.job}: request ${i + 1} of ${count(job.calls)}, ${countText(request.records, "record")}`;
    return `${title}\n${renderRequest(request)}`;
  });
}

function ending(jobs: readonly JobPlan[]): string {
  const isHinted = jobs.some((job) => job.records_to_send > 0 && job.requests === undefined);
  const hint = isHinted ? " `plan --show 1` prints the first request of each job." : "";
  return `Nothing was sent or billed.${hint}`;
}
