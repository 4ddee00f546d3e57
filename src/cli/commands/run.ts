import { basename } from "node:path";
import { createSampleTables } from "./sandbox.ts";
import { exampleQueries } from "./database.ts";
import { plan } from "./plan.ts";
import { renderPublication } from "./publish.ts";
import { openJobServices, openPublisher, openWarehouseOf, openConfig } from "../app.ts";
import { confirmation, type Context, newRunId } from "../command.ts";
import { renderRunCost } from "../costs.ts";
import { UsageError } from "../failure.ts";
import { type Logger, paragraphs, table, type Text } from "../output.ts";
import { configFlag, programName } from "../package.ts";
import { limitText } from "../../advice.ts";
import { systemClock } from "../../clock.ts";
import type { Config, JobConfig } from "../../config/config.ts";
import { durationMs } from "../../config/schema/times.ts";
import { count, countText, durationText, timeText } from "../../figures.ts";
import { finishErasuresQuietly } from "../../jobs/erase/erase.ts";
import { selectJobs } from "../../jobs/job-selection.ts";
import { exitCodeOf, type JobReport, type RunReport, type Status } from "../../jobs/job.ts";
import { isLookupJob } from "../../jobs/lookup/lookup-types.ts";
import { checkServiceHost, isTrial } from "../../jobs/service-identity.ts";
import type { PublishResult } from "../../jobs/publish/publisher.ts";
import { jobTypes } from "../../jobs/registry.ts";
import { peopleChangedText } from "../../jobs/report/people-changed.ts";
import { runJobs } from "../../jobs/run.ts";
import { type RunRequest, type Shard, shareLimits, wholeInput } from "../../jobs/services.ts";
import type { Db } from "../../load/db/db.ts";
import { billedByJob, readBilledInRun } from "../../load/ledger/costs.ts";

interface RunFlags {
  readonly fullRefresh?: boolean;
  readonly resend?: boolean;
  readonly maxRecords?: number;
  readonly shard?: Shard;
  readonly runId?: string;
  /** A duration; true for the default one. */
  readonly wait?: string | true;
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly acceptParameters?: "resend" | "keep";
}

export async function run(context: Context, flags: RunFlags, names: readonly string[]) {
  if (flags.dryRun === true) return await dryRun(context, flags, names);
  const shard = flags.shard ?? wholeInput;
  const request: RunRequest = {
    jobs: names,
    fullRefresh: flags.fullRefresh === true,
    resend: flags.resend === true,
    maxRecords: flags.maxRecords ?? null,
    shard,
    runId: flags.runId ?? newRunId(),
    waitMs: waitMsOf(flags),
    yes: flags.yes === true,
    acceptParameters: flags.acceptParameters ?? null,
    ...confirmation(context),
  };
  const config = shareLimits(await openConfig(context), shard);
  const jobs = selectJobs(config, names);
  let db: Db | null = null;
  try {
    ({ db } = await openWarehouseOf(context, config));
    return await runIn(context, config, jobs, db, request);
  } catch (error) {
    if (!context.stop.signal.aborted) {
      const { alertRunFailure } = await import("../../operate/overview.ts");
      await alertRunFailure({ config, db, clock: systemClock, log: context.log }, error, request.runId);
    }
    throw error;
  }
}

/** Predicts the run, like `plan`. */
async function dryRun(context: Context, flags: RunFlags, names: readonly string[]) {
  for (const [flag, value] of [
    ["--full-refresh", flags.fullRefresh],
    ["--accept-parameters", flags.acceptParameters],
  ]) {
    if (value !== undefined) throw new UsageError(`--dry-run can't predict ${flag}. Use one of them only.`);
  }
  return await plan(context, flags, names);
}

function waitMsOf({ wait }: RunFlags): number {
  if (wait === undefined) return 0;
  const waitMs = durationMs(wait === true ? "10m" : wait);
  if (waitMs !== null) return waitMs;
  throw new UsageError(
    `--wait ${wait} is not a duration such as 90s, 10m or 2h. Name jobs before this flag.`,
  );
}

async function runIn(
  context: Context,
  config: Config,
  jobs: readonly JobConfig[],
  db: Db,
  request: RunRequest,
) {
  const startedAtMs = performance.now();
  const { shard, runId } = request;
  const isSummarized = context.isWatched && !context.options.json;
  const own: Context = isSummarized ? { ...context, log: withoutFailures(context.log) } : context;
  await checkServiceHost(config, db);
  await createSampleTables(config, jobs, db, context);
  const services = await openJobServices(own, config, db);
  const publisher = await openPublisher(own, config, db);
  // Only the first shard publishes: a destination has one publisher at a time.
  const isPublishing = shard.index === 0;
  if (isPublishing) publisher.startIntervals(systemClock);
  const report = await runJobs(services, request);
  const { concludeRun } = await import("../../operate/overview.ts");
  await concludeRun(services, report, { isWhole: isPublishing });
  const publications = isPublishing && !context.stop.signal.aborted ? await publisher.publish() : [];
  // Erasures are pending until all destinations are published.
  if (publications.length > 0) await finishErasuresQuietly(services);
  return {
    document: publications.length === 0 ? report : { ...report, publications },
    text: renderRunSummary(report, {
      publications,
      config,
      // Shards of a run share its ID, and a warehouse that is gone must not take the summary with it.
      billed: shard.count > 1 ? null : await readBilledInRun(db, runId).then(billedByJob, () => null),
      seconds: (performance.now() - startedAtMs) / 1000,
      warehouse: db.description,
      isTrial: await isTrial(db).catch(() => false),
    }),
    exitCode: exitCodeOf(report, context.stop.received()),
  };
}

/** Log on a terminal, where the summary reports jobs that failed. */
function withoutFailures(log: Logger): Logger {
  return {
    ...log,
    error(fields, event) {
      if (event !== "job_failed" || log.shows("debug")) log.error(fields, event);
    },
  };
}

interface SummaryContext {
  readonly config: Config;
  /** Empty without destinations. */
  readonly publications: readonly PublishResult[];
  /** Billed records by job; null if unknown. */
  readonly billed: ReadonlyMap<string, number> | null;
  readonly seconds: number;
  readonly warehouse: string;
  /** Start of an earlier run; absent for the one that ends now. */
  readonly startedAt?: string;
  /** True if a sandbox filled the warehouse. */
  readonly isTrial: boolean;
}

const MARKS: Readonly<Record<Status, string>> = {
  running: "•",
  succeeded: "✓",
  limited: "•",
  interrupted: "•",
  locked: "•",
  skipped: "✗",
  failed: "✗",
};

/** Formats the summary of `run`: jobs, problems, next steps, and the outcome last, where terminals stop scrolling. */
export function renderRunSummary(report: RunReport, context: SummaryContext): Text {
  const { config, publications, billed, warehouse, startedAt } = context;
  const isDone = report.status === "succeeded" || report.status === "limited";
  const isFirst = (job: JobReport) => report.jobs.find((other) => other.job === job.job) === job;
  const jobs = table(report.jobs, {
    "  job": ({ status, job }) => `${MARKS[status]} ${job}`,
    shard: ({ shard }) => shard ?? null,
    status: ({ status }) => (status === "succeeded" ? null : status),
    read: (job) => job.records_read || null,
    unchanged: (job) => job.records_unchanged || null,
    suppressed: (job) => job.records_suppressed || null,
    waiting: (job) => job.records_waiting || null,
    sent: (job) => job.records_sent || null,
    billed: (job) => (isFirst(job) && billed?.get(job.job)) || null,
    received: (job) => job.records_received || null,
    matched: (job) => job.records_matched || null,
    rejected: (job) => job.records_rejected || null,
    remaining: (job) => job.records_remaining || null,
  });
  const rejected = sumOf(report.jobs, (job) => job.records_rejected);
  const cost = renderRunCost(report);
  return paragraphs(
    [
      `Run ${report.run_id}`,
      report.shard === undefined ? "" : `, shard ${report.shard}`,
      startedAt === undefined ? "" : `, started at ${timeText(startedAt)}`,
    ].join(""),
    jobs,
    [
      ...report.jobs.flatMap(remarks),
      context.isTrial && matchesNobody(report)
        ? "• No record matched: the sandbox's people are invented, so rows of your own match none of them."
        : "",
      report.people_changed ? `• ${peopleChangedText(report.people_changed)}.` : "",
      rejected === 0
        ? ""
        : `• ${countText(rejected, "record was", "records were")} rejected. To see why:\n  ${commandWith(config, "rejects list")}`,
      ...publications.map(renderPublication),
    ],
    config.warehouse.url === "embedded" ? "" : `Data: ${warehouse}`,
    isDone && startedAt === undefined ? nextSteps(report.jobs, context) : "",
    [
      `${cost}${context.isTrial && report.cost ? " The sandbox bills nothing." : ""}`,
      headline(report, context),
    ],
  );
}

/** True if records were sent to find people, and none was found. */
function matchesNobody({ jobs }: RunReport): boolean {
  const own = jobs.filter(({ type }) => type === "resolve" || type === "enrich");
  return sumOf(own, (job) => job.records_sent) > 0 && sumOf(own, (job) => job.records_matched) === 0;
}

const sumOf = (jobs: readonly JobReport[], value: (job: JobReport) => number): number =>
  jobs.reduce((total, job) => total + value(job), 0);

function headline({ status, jobs }: RunReport, { billed, seconds, publications }: SummaryContext): string {
  const time = durationText(seconds);
  const sent = sumOf(jobs, (job) => (BILLED_TYPES.has(job.type) ? job.records_sent : 0));
  const paid = [...new Set(jobs.map(({ job }) => job))].reduce(
    (sum, job) => sum + (billed?.get(job) ?? 0),
    0,
  );
  const received = sumOf(jobs, (job) => job.records_received);
  const written = sumOf(jobs, (job) => job.rows_written);
  const enriched = sumOf(jobs, (job) => (job.type === "enrich" ? job.records_matched : 0));
  const isFree = sent + paid === 0;
  const others = sentByOthers(jobs);
  const outcome = [
    // The table has the other calls of a run that sent records.
    ...(sent > 0 ? [`${countText(sent, "record")} sent`] : others),
    sent === 0 && others.length === 0 ? "nothing was sent" : "",
    paid > 0 ? `${count(paid)} billed` : "",
    enriched > 0 ? `${countText(enriched, "person", "people")} enriched` : "",
    isFree && received > 0 ? `${countText(received, "record")} received` : "",
    isFree && written > 0 ? `${countText(written, "row")} written` : "",
  ].filter((part) => part !== "");
  const behind = publications.filter((result) => result.status !== "published");
  const names = behind.map(({ destination }) => destination).join(", ");
  const notPublished = names === "" ? "" : ` Not published: ${names}.`;
  if (status === "running") return `• Running for ${time}: ${outcome.join(", ")} so far.`;
  if (status !== "succeeded") {
    const kept = sent + paid + received + written + others.length > 0 ? " Completed work is kept." : "";
    return `${reasonOf(status, jobs)} (${time}): ${outcome.join(", ")}.${kept}${notPublished}`;
  }
  const isIdle = isFree && others.length === 0 && written + sumOf(jobs, (job) => job.records_rejected) === 0;
  const done = isIdle ? "nothing has changed since the last run, so nothing was sent" : outcome.join(", ");
  return `${notPublished === "" ? "✓" : "•"} Done in ${time}: ${done}.${notPublished}`;
}

/** Work sent by jobs whose records aren't billed when sent: `2,090 PIDs pushed`, `2 searches`. */
function sentByOthers(jobs: readonly JobReport[]): readonly string[] {
  const sentBy = (...types: string[]) =>
    sumOf(jobs, ({ type, records_sent: sent }) => (types.includes(type) ? sent : 0));
  const parts = [
    [sentBy("segment_push"), "PID pushed", "PIDs pushed"],
    [sumOf(jobs, (job) => job.records_removed), "member removed", "members removed"],
    [sentBy("person_search", "audience_search"), "search", "searches"],
    [sentBy("contact_jobs"), "contact job", "contact jobs"],
  ] as const;
  return parts.flatMap(([number, one, several]) => (number > 0 ? [countText(number, one, several)] : []));
}

/** Types of jobs whose records are billed when sent. */
const BILLED_TYPES: ReadonlySet<string> = new Set(
  jobTypes.filter(({ isBilled }) => isBilled).map(({ type }) => type),
);

function reasonOf(status: Exclude<Status, "succeeded" | "running">, jobs: readonly JobReport[]): string {
  const own = jobs.filter((job) => job.status === status);
  const isWaiting = own.some(({ limited_by }) => CONFIRMATIONS.has(limited_by));
  const skipped = jobs.filter((job) => job.status === "skipped").length;
  const what = {
    limited: isWaiting ? "stopped until you confirm" : "stopped at a limit",
    locked: "skipped: locked by another process",
    skipped: "skipped",
    failed: `failed${skipped === 0 ? "" : `, ${skipped} skipped`}`,
    interrupted: "",
  }[status];
  if (status === "interrupted") return "• Stopped by a signal; the next run resumes";
  return `${status === "limited" ? "•" : "✗"} ${own.length} of ${countText(jobs.length, "job")} ${what}`;
}

const CONFIRMATIONS: ReadonlySet<string | undefined> = new Set(["confirmation", "parameters_changed"]);

function remarks(report: JobReport): readonly string[] {
  const { job, status, error, limited_by: limit, records_remaining: remaining } = report;
  const pushed = [
    [report.records_added, "added"],
    [report.records_redundant, "already members"],
    [report.records_removed, "removed"],
  ] as const;
  const counts = pushed.flatMap(([n, what]) => (n > 0 ? [`${count(n)} ${what}`] : []));
  const members = counts.length > 0 ? [`• ${job}: ${counts.join(", ")}.`] : [];
  if (error) return [...members, `${status === "limited" ? "•" : "✗"} ${aboutJob(job, error.message)}`];
  if (status !== "limited" || limit === undefined) return members;
  return [
    ...members,
    `• ${job}: stopped at ${limitText(limit)}; ${countText(remaining, "row remains", "rows remain")}.`,
  ];
}

/** Puts the job's name before a message, unless the message starts with it. */
export function aboutJob(job: string, message: string): string {
  return message.startsWith(`${job}:`) || message.startsWith(`${job} `) ? message : `${job}: ${message}`;
}

/** Command with the configuration in use, to copy from the terminal. */
export function commandWith({ file }: Config, command: string): string {
  return [programName, ...configFlag(file), command].join(" ");
}

/** Next steps of a trial: look at it, query the data, then replace sandbox and embedded database. Empty without either. */
function nextSteps(jobs: readonly JobReport[], { config, isTrial }: SummaryContext): readonly string[] {
  const isEmbedded = config.warehouse.url === "embedded";
  const settings = [...(isTrial ? ["service.base_url"] : []), ...(isEmbedded ? ["warehouse.url"] : [])];
  if (settings.length === 0) return [];
  const ran = config.jobs.filter(({ name }) => jobs.some(({ job }) => job === name)).filter(isLookupJob);
  const read = Object.fromEntries(ran.map(({ input }) => [input.name, input]));
  const [query] = exampleQueries(config.warehouse.schema, read);
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
      : [
          ...(isTrial
            ? [
                "To leave the trial, remove its invented people, or name other schemas:",
                `  ${commandWith(config, "drop --trial")}`,
              ]
            : []),
          `${isTrial ? "Then set" : "To use your own database, set"} \`${settings.join("` and `")}\` in ${basename(config.file)}.`,
        ]),
  ];
}
