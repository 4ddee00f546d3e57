import { lookupTypes } from "../jobs/lookup/lookup-types.ts";
import type { JobPlan } from "../jobs/report/job-plan.ts";
import type { PlanReport } from "../jobs/report/plan.ts";
import { costText } from "../jobs/price.ts";
import { amountText } from "../money.ts";
import { count, counted, duration } from "./figures.ts";
import { renderBudgets } from "./render-budgets.ts";
import { renderRequest } from "./render-request.ts";
import { renderTable } from "./text-table.ts";

/** Ends of an input row, which sum to the rows read; shown if not zero for all jobs. */
const ENDS = [
  { name: "unchanged", value: (job: JobPlan) => job.records_unchanged },
  { name: "suppressed", value: (job: JobPlan) => job.records_suppressed },
  { name: "rejected", value: (job: JobPlan) => job.records_rejected_before_sending },
  { name: "waiting", value: (job: JobPlan) => job.records_waiting },
  { name: "duplicate", value: (job: JobPlan) => job.records_duplicate },
  { name: "left", value: (job: JobPlan) => job.records_remaining },
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

function renderRows(jobs: readonly JobPlan[], widthColumns: number | null): string {
  if (jobs.length === 0) return "";
  const ends = ENDS.filter(({ value }) => jobs.some((job) => value(job) > 0));
  const table = renderTable(
    [
      { name: "input rows" },
      { name: "read", isNumber: true },
      ...ends.map(({ name }) => ({ name, isNumber: true })),
    ],
    jobs.map((job) => [job.job, count(job.records_read), ...ends.map(({ value }) => count(value(job)))]),
    widthColumns,
  );
  return `${table}\n(read = ${ends.map(({ name }) => name).join(" + ")})`;
}

function renderCost({ jobs, estimated_cost: cost }: PlanReport, widthColumns: number | null): string {
  const sum = (value: (job: JobPlan) => number) => count(jobs.reduce((total, job) => total + value(job), 0));
  const rows = jobs.map((job) => [
    job.job,
    count(job.records_expected),
    count(job.calls),
    count(job.estimated_billable.expected),
    job.estimated_cost ? amountText(job.estimated_cost.expected, job.estimated_cost.currency) : "",
    job.calls === 0 ? "" : duration(job.estimated_seconds),
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
  const { low, expected, high, basis } = job.estimated_billable;
  const reasons = Object.entries(job.due_reasons)
    .filter(([, rows]) => rows > 0)
    .map(([reason, rows]) => `${count(rows)} ${reason.replaceAll("_", " ")}`);
  const range = low === high ? count(expected) : `${count(low)} to ${count(high)}`;
  const lines = [
    ...(reasons.length > 0 ? [`due: ${reasons.join(", ")}`] : []),
    ...(job.records_expected > 0 ? [`billed: ${range} (${basis})`] : []),
    ...(job.estimated_cost && job.records_expected > 0 ? [`cost: ${costText(job.estimated_cost)}`] : []),
    ...(job.limited_by === null ? [] : [leftText(job, job.limited_by)]),
    ...(job.records_rejected_before_sending > 0
      ? [
          `rejected: ${counted(job.records_rejected_before_sending, "row")} can't be sent; a run lists them in \`rejects list\``,
        ]
      : []),
    ...(job.records_suppressed > 0
      ? [`suppressed: ${counted(job.records_suppressed, "row")} of erased people, never sent`]
      : []),
    ...job.remarks,
    ...(job.waiting_answers.calls > 0
      ? [
          `fewer, because ${counted(job.waiting_answers.calls, "answer")} received by earlier runs will be loaded first`,
        ]
      : []),
  ];
  return lines.length === 0 ? [] : [[job.job, ...lines.map((line) => `  ${line}`)].join("\n")];
}

function leftText({ records_remaining: left }: JobPlan, limit: string): string {
  return left > 0 ? `left: ${counted(left, "row")} for later runs (${limit})` : `limited by ${limit}`;
}

function renderRequests(job: JobPlan): readonly string[] {
  const { requests, records_waiting: waiting } = job;
  if (requests === undefined) return [];
  if (requests.length === 0) {
    return [
      `${job.job}: no request${waiting > 0 ? ` yet, because ${counted(waiting, "row waits", "rows wait")} for another job` : ""}.`,
    ];
  }
  return requests.map((request, i) => {
    const title = `${job.job}: request ${i + 1} of ${count(job.calls)}, ${counted(request.records, "record")}`;
    return `${title}\n${renderRequest(request)}`;
  });
}

function ending(jobs: readonly JobPlan[]): string {
  const isHinted = jobs.some((job) => job.records_to_send > 0 && job.requests === undefined);
  const hint = isHinted ? " `plan --show 1` prints the first request of each job." : "";
  return `Nothing was sent or billed.${hint}`;
}
