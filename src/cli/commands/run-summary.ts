import { basename, dirname } from "node:path";
import { renderPublication } from "./publish.ts";
import { renderRunCost } from "../costs.ts";
import { exampleQueries } from "./database.ts";
import { programName } from "../package.ts";
import { type Column, renderTable } from "../output.ts";
import type { Config } from "../../config/config.ts";
import { count, countText, durationText } from "../../figures.ts";
import type { PublishResult } from "../../jobs/publish/publisher.ts";
import { jobTypes } from "../../jobs/registry.ts";
import type { JobReport, RunReport, Status } from "../../jobs/job.ts";

/** Everything in a summary but the report. */
interface Surroundings {
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
  const rows = report.jobs.map((job) => FIGURES.map(({ value }) => value(job, billed ?? new Map())));
  const sections = [
    [`Run ${report.run_id}${report.shard === undefined ? "" : `, shard ${report.shard}`}`],
    [renderTable(FIGURES, rows, widthColumns)],
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

/** Puts the job's name before a message, unless the message starts with it. */
export function aboutJob(job: string, message: string): string {
  return message.startsWith(`${job}:`) || message.startsWith(`${job} `) ? message : `${job}: ${message}`;
}

const MARKS: Readonly<Record<Status, string>> = {
  succeeded: "✓",
  limited: "•",
  interrupted: "•",
  locked: "•",
  skipped: "✗",
  failed: "✗",
};

/** Column of the run's table. */
interface Figure extends Column {
  readonly value: (job: JobReport, billed: ReadonlyMap<string, number>) => string;
}

/** Column of numbers, blank for 0. */
function number(name: string, drop: number | null, value: (job: JobReport) => number): Figure {
  return {
    name,
    isNumber: true,
    isSparse: true,
    ...(drop === null ? {} : { drop }),
    value: (job) => orBlank(value(job)),
  };
}

function orBlank(value: number): string {
  return value === 0 ? "" : count(value);
}

const FIGURES: readonly Figure[] = [
  { name: "  job", value: ({ status, job }) => `${MARKS[status]} ${job}` },
  { name: "status", isSparse: true, value: ({ status }) => (status === "succeeded" ? "" : status) },
  number("read", 7, (job) => job.records_read),
  number("unchanged", 3, (job) => job.records_unchanged),
  number("duplicate", 2, (job) => job.records_duplicate),
  number("suppressed", 4, (job) => job.records_suppressed),
  number("waiting", 9, (job) => job.records_waiting),
  number("sent", null, (job) => job.records_sent),
  {
    name: "billed",
    isNumber: true,
    isSparse: true,
    value: ({ job }, billed) => orBlank(billed.get(job) ?? 0),
  },
  number("received", 8, (job) => job.records_received),
  number("matched", 10, (job) => job.records_matched),
  number("rejected", 11, (job) => job.records_rejected),
  number("remaining", 12, (job) => job.records_remaining),
  number("rows written", 5, (job) => job.rows_written),
  { name: "seconds", isNumber: true, drop: 6, value: ({ seconds }) => seconds.toFixed(1) },
  number("sent/s", 1, (job) => Math.round(job.records_sent / Math.max(job.seconds, 0.001))),
];

/** Types of jobs whose records are billed when sent; other jobs send only free calls. */
const BILLED_TYPES: ReadonlySet<string> = new Set(
  jobTypes.filter(({ isBilled }) => isBilled).map(({ type }) => type),
);

/** The text, unless there is none of it. */
const some = (value: number, text: string): readonly string[] => (value === 0 ? [] : [text]);

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

/** Command with the configuration in use, to copy from the terminal. */
function commandWith({ file }: Config, command: string): string {
  const isHere = process.cwd() === dirname(file);
  const isDefault = isHere && basename(file) === "config.yaml";
  return [programName, ...(isDefault ? [] : ["--config", isHere ? basename(file) : file]), command].join(" ");
}

/** Next steps of a trial: look at it, query the data, then replace sandbox and embedded database. Empty without either. */
function nextSteps(config: Config): readonly string[] {
  const isSandbox = config.service.baseUrl === "sandbox";
  const isEmbedded = config.warehouse.url === "embedded";
  if (!isSandbox && !isEmbedded) return [];
  const settings = [...(isSandbox ? ["service.base_url"] : []), ...(isEmbedded ? ["warehouse.url"] : [])];
  const [query] = exampleQueries(config.warehouse.schema);
  return [
    "To see runs, costs and coverage in a browser (until Ctrl-C):",
    `  ${commandWith(config, "ui")}`,
    ...(isEmbedded
      ? [
          "To query the data with psql or a BI tool, start its database (until Ctrl-C):",
          `  ${commandWith(config, "database")}`,
        ]
      : []),
    ...(query ? [`${query.title}:`, ...query.sql.map((line) => `  ${line}`)] : []),
    ...(basename(config.file) === "config.example.yaml"
      ? ["To use your own service, database and tables, write a configuration:", `  ${programName} init`]
      : [`To leave the trial, set \`${settings.join("` and `")}\` in ${basename(config.file)}.`]),
  ];
}
