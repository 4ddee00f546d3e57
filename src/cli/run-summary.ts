import type { Config } from "../config/config.ts";
import type { PublishResult } from "../jobs/publish/publisher.ts";
import { jobTypes } from "../jobs/registry.ts";
import type { JobReport, RunReport, Status } from "../jobs/run-report.ts";
import { aboutJob } from "./about-job.ts";
import { count, countText, durationText } from "../figures.ts";
import { commandWith, nextSteps } from "./next-steps.ts";
import { renderRunCost } from "./render-cost.ts";
import { renderPublication } from "./render-publication.ts";
import { renderRunTable } from "./run-table.ts";

/** Types of jobs whose records are billed when sent; other jobs send only free calls. */
const BILLED_TYPES: ReadonlySet<string> = new Set(
  jobTypes.filter(({ isBilled }) => isBilled).map(({ type }) => type),
);

/** Everything in a summary but the report. */
export interface Surroundings {
  readonly config: Config;
  /** Empty without destinations. */
  readonly publications: readonly PublishResult[];
  /** Billed records by job; null if unknown. */
  readonly billed: ReadonlyMap<string, number> | null;
  readonly seconds: number;
  /** Address of the warehouse. */
  readonly warehouse: string;
  readonly widthColumns: number | null;
}

/** Formats the summary of `run`: jobs, problems, next steps, and the outcome last, where terminals stop scrolling. */
export function renderRunSummary(report: RunReport, surroundings: Surroundings): string {
  const { config, publications, billed, warehouse, widthColumns } = surroundings;
  const sections = [
    [`Run ${report.run_id}${report.shard === undefined ? "" : `, shard ${report.shard}`}`],
    [renderRunTable(report.jobs, billed ?? new Map(), widthColumns)],
    [
      ...report.jobs.flatMap((job) => remark(job) ?? []),
      ...rejectRemark(report, config),
      ...publications.map((result) => renderPublication(result)),
    ],
    config.warehouse.url === "embedded" ? [] : [`Data: ${warehouse}`],
    report.status === "succeeded" ? nextSteps(config) : [],
    [renderRunCost(report), headline(report, surroundings)].filter(Boolean),
  ];
  return sections
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join("\n"))
    .join("\n\n");
}

/** The text, unless there is none of it. */
const some = (value: number, text: string): readonly string[] => (value === 0 ? [] : [text]);

/** Outcome of the run in one line. */
function headline(report: RunReport, { billed, seconds, publications }: Surroundings): string {
  const { status, jobs } = report;
  const time = durationText(seconds);
  const sum = (value: (job: JobReport) => number) => jobs.reduce((total, job) => total + value(job), 0);
  const sent = sum((job) => (BILLED_TYPES.has(job.type) ? job.records_sent : 0));
  const received = sum((job) => job.records_received);
  const written = sum((job) => job.rows_written);
  const enriched = sum((job) => (job.type === "enrich" ? job.records_matched : 0));
  const paid = sum((job) => billed?.get(job.job) ?? 0);
  const free = [
    ...some(received, `${countText(received, "record")} received`),
    ...some(written, `${countText(written, "row")} written`),
  ];
  const outcome = [
    sent > 0 ? `${countText(sent, "record")} sent` : "no records sent",
    ...some(paid, `${count(paid)} billed`),
    ...some(enriched, `${countText(enriched, "person", "people")} enriched`),
    ...(sent + paid > 0 ? [] : free),
  ].join(", ");
  const behind = publications.filter((result) => result.status !== "published");
  const notPublished =
    behind.length === 0 ? "" : ` Not published: ${behind.map(({ destination }) => destination).join(", ")}.`;
  if (status === "succeeded") {
    const isIdle = sent + paid + written + sum((job) => job.records_rejected) === 0;
    const done = isIdle ? "nothing has changed since the last run, no records sent" : outcome;
    return `${behind.length === 0 ? "✓" : "•"} Done in ${time}: ${done}.${notPublished}`;
  }
  return `${REASONS[status](jobs)} (${time}): ${outcome}. Completed work is kept.${notPublished}`;
}

const numberOf = (jobs: readonly JobReport[], ...statuses: readonly Status[]): string =>
  `${jobs.filter(({ status }) => statuses.includes(status)).length} of ${countText(jobs.length, "job")}`;

/** Reasons why a run did not succeed. */
const REASONS: Readonly<Record<Exclude<Status, "succeeded">, (jobs: readonly JobReport[]) => string>> = {
  limited: (jobs) =>
    jobs.some((job) => job.limited_by === "confirmation" || job.limited_by === "parameters_changed")
      ? `• ${numberOf(jobs, "limited")} stopped, waiting for your confirmation`
      : `• ${numberOf(jobs, "limited")} stopped at a limit`,
  interrupted: () => "• Stopped by a signal, the next run resumes",
  locked: (jobs) => `✗ ${numberOf(jobs, "locked")} skipped, because another process is running them`,
  skipped: (jobs) => `✗ ${numberOf(jobs, "skipped")} skipped`,
  failed: (jobs) =>
    `✗ ${numberOf(jobs, "failed")} failed${jobs.some(({ status }) => status === "skipped") ? `, ${jobs.filter(({ status }) => status === "skipped").length} skipped` : ""}`,
};

/** Remark on a job; null for none. */
function remark(job: JobReport): string | null {
  if (job.error) return `${job.status === "limited" ? "•" : "✗"} ${aboutJob(job.job, job.error.message)}`;
  if (job.status === "limited" && job.limited_by !== undefined) {
    return `• ${job.job}: stopped at ${job.limited_by}; ${countText(job.records_remaining, "row")} left for the next run.`;
  }
  return null;
}

function rejectRemark({ jobs }: RunReport, config: Config): string[] {
  const rejected = jobs.reduce((sum, job) => sum + job.records_rejected, 0);
  if (rejected === 0) return [];
  const subject = `${countText(rejected, "record")} ${rejected === 1 ? "was" : "were"} rejected`;
  return [`• ${subject}. To see why:`, `  ${commandWith(config, "rejects list")}`];
}
