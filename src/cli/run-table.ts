import type { JobReport, Status } from "../jobs/run-report.ts";
import { count } from "../figures.ts";
import { type Column, renderTable } from "./text-table.ts";

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

/** Formats the counters of each job. */
export function renderRunTable(
  jobs: readonly JobReport[],
  billed: ReadonlyMap<string, number>,
  widthColumns: number | null,
): string {
  const rows = jobs.map((job) => FIGURES.map(({ value }) => value(job, billed)));
  return renderTable(FIGURES, rows, widthColumns);
}
