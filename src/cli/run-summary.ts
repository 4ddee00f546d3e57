import { basename, dirname } from "node:path";
import type { Config } from "../config/config.ts";
import type { PublishResult } from "../jobs/publish/publisher.ts";
import type { JobReport, RunReport, Status } from "../jobs/run-report.ts";
import { exampleQueries, identifier } from "./example-queries.ts";
import { count, counted, duration } from "./figures.ts";
import { renderPublication } from "./render-publication.ts";
import { type Column, renderTable } from "./text-table.ts";
import { programName } from "./version.ts";

/** Column of the summary. */
interface Figure {
  readonly column: Column;
  readonly value: (job: JobReport) => string;
  /** If present, the column is shown only if this is true for at least one job. */
  readonly isWorthShowing?: (job: JobReport) => boolean;
}

const number = (name: string): Column => ({ name, isNumber: true });

const FIGURES: readonly Figure[] = [
  { column: { name: "job" }, value: (job) => job.job },
  { column: { name: "status" }, value: (job) => job.status },
  { column: number("read"), value: (job) => count(job.records_read) },
  { column: number("unchanged"), value: (job) => count(job.records_unchanged) },
  { column: number("duplicate"), value: (job) => count(job.records_duplicate) },
  {
    column: number("waiting"),
    value: (job) => count(job.records_waiting),
    isWorthShowing: (job) => job.records_waiting > 0,
  },
  { column: number("sent"), value: (job) => count(job.records_sent) },
  {
    column: number("received"),
    value: (job) => (job.records_received === 0 ? "" : count(job.records_received)),
    isWorthShowing: (job) => job.records_received > 0,
  },
  { column: number("matched"), value: (job) => count(job.records_matched) },
  { column: number("rejected"), value: (job) => count(job.records_rejected) },
  {
    column: number("remaining"),
    value: (job) => count(job.records_remaining),
    isWorthShowing: (job) => job.records_remaining > 0,
  },
  { column: number("rows written"), value: (job) => count(job.rows_written) },
  { column: number("seconds"), value: (job) => job.seconds.toFixed(1) },
  {
    column: number("sent/s"),
    value: (job) => (job.records_sent === 0 ? "" : count(job.records_sent / Math.max(job.seconds, 0.001))),
    isWorthShowing: (job) => job.records_sent > 0,
  },
];

/** Formats the summary of `run`: results, problems, how to connect, next steps. */
export function renderRunSummary(
  report: RunReport,
  surroundings: {
    readonly config: Config;
    /** Empty without destinations. */
    readonly publications: readonly PublishResult[];
    readonly seconds: number;
    readonly warehouse: string;
    readonly howToConnect: readonly string[];
    readonly widthColumns: number | null;
  },
): string {
  const { config, publications, seconds, warehouse, howToConnect, widthColumns } = surroundings;
  const figures = FIGURES.filter(({ isWorthShowing }) => !isWorthShowing || report.jobs.some(isWorthShowing));
  const isTrial = config.service.baseUrl === "sandbox" || config.warehouse.url === "embedded";
  const sections = [
    `${headline(report)}\nRun ${report.run_id}${report.shard === undefined ? "" : `, shard ${report.shard}`}, ${duration(seconds)}.`,
    renderTable(
      figures.map((figure) => figure.column),
      report.jobs.map((job) => figures.map((figure) => figure.value(job))),
      widthColumns,
    ),
    [...report.jobs.flatMap((job) => remark(job) ?? []), ...rejectRemark(report, config)].join("\n"),
    publications.map((result) => renderPublication(result)).join("\n"),
    ["Warehouse", ...indent([warehouse, ...howToConnect])].join("\n"),
    ...(isTrial ? [queries(config), nextSteps(config)] : []),
  ];
  return sections.filter((section) => section !== "").join("\n\n");
}

const HEADLINES: Readonly<Record<Status, (outcome: string) => string>> = {
  succeeded: (outcome) => `✓ Done: ${outcome}.`,
  limited: (outcome) => `• Stopped at a limit: ${outcome}. Completed work is kept.`,
  interrupted: (outcome) =>
    `• Stopped by a signal: ${outcome}. Completed work is kept; the next run resumes.`,
  locked: (outcome) => `✗ Another process is running some of these jobs: ${outcome} by this one.`,
  skipped: (outcome) => `✗ Not everything succeeded: ${outcome}. Completed work is kept.`,
  failed: (outcome) => `✗ Not everything succeeded: ${outcome}. Completed work is kept.`,
};

function headline({ status, jobs }: RunReport): string {
  const sum = (value: (job: JobReport) => number) => jobs.reduce((total, job) => total + value(job), 0);
  const sent = sum((job) => job.records_sent);
  const received = sum((job) => job.records_received);
  const written = sum((job) => job.rows_written);
  const enriched = sum((job) => (job.type === "enrich" ? job.records_matched : 0));
  if (status === "succeeded" && sent + written === 0 && sum((job) => job.records_rejected) === 0) {
    return "✓ Nothing has changed since the last run: no records were sent.";
  }
  const outcome =
    sent > 0
      ? [
          `${counted(sent, "record")} sent`,
          ...(enriched === 0 ? [] : [`${counted(enriched, "person", "people")} enriched`]),
        ]
      : [
          "no records were sent",
          ...(received === 0 ? [] : [`${counted(received, "record")} received`]),
          ...(written === 0 ? [] : [`${counted(written, "row")} written`]),
        ];
  return HEADLINES[status](outcome.join(", "));
}

/** Remark on a job; null for none. */
function remark(job: JobReport): string | null {
  if (job.error) return `✗ ${job.job}: ${job.error.message}`;
  if (job.status === "limited" && job.limited_by !== undefined) {
    return `• ${job.job}: stopped at ${job.limited_by}; ${counted(job.records_remaining, "row")} left for the next run.`;
  }
  return null;
}

function rejectRemark({ jobs }: RunReport, { warehouse }: Config): string[] {
  const rejected = jobs.reduce((sum, job) => sum + job.records_rejected, 0);
  if (rejected === 0) return [];
  const sql = `SELECT job, code, count(*) FROM ${identifier(warehouse.schema)}.reject WHERE resolved_at IS NULL GROUP BY job, code;`;
  return [`• ${counted(rejected, "record")} were rejected. Reasons: ${sql}`];
}

function queries(config: Config): string {
  const blocks = exampleQueries(config.warehouse.schema).flatMap(({ title, sql }) => [`-- ${title}`, ...sql]);
  return ["Example queries", ...indent(blocks)].join("\n");
}

/** Next steps: query the data, and replace sandbox and embedded database. */
function nextSteps(config: Config): string {
  const isSandbox = config.service.baseUrl === "sandbox";
  const isEmbedded = config.warehouse.url === "embedded";
  const isSame = process.cwd() === dirname(config.file);
  const flag = `--config ${isSame ? basename(config.file) : config.file}`;
  const steps = [
    ...(isEmbedded
      ? [
          "To query the data with psql or a BI tool, keep the database running with",
          `  ${programName} ${flag} database`,
        ]
      : []),
    "To use your own key, warehouse and tables, create a configuration with `init`, or change these settings:",
    `  ${programName} --config config.yaml init`,
    ...(isSandbox
      ? ["  service.base_url   https://… of your service", "  service.api_key    ${PERSON_SERVICE_API_KEY}"]
      : []),
    ...(isEmbedded
      ? ["  warehouse.url      ${WAREHOUSE_URL}, the postgresql:// address of your database"]
      : []),
    ...(isSandbox ? ["  inputs             your tables, their keys and columns"] : []),
  ];
  return ["Next", ...indent(steps)].join("\n");
}

function indent(lines: readonly string[]): string[] {
  return lines.map((line) => `  ${line}`);
}
