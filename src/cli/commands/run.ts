import { codeOf } from "../../errors.ts";
import { finishErasuresQuietly } from "../../jobs/erase/erase.ts";
import type { Db } from "../../load/db/db.ts";
import { type Command, Option, InvalidArgumentError } from "commander";
import { systemClock } from "../../clock.ts";
import type { Config, JobConfig } from "../../config/config.ts";
import { selectJobs } from "../../jobs/job-selection.ts";
import { runJobs } from "../../jobs/run.ts";
import { exitCodeOf } from "../../jobs/job.ts";
import { checkServiceHost } from "../../jobs/prepare.ts";
import { type Shard, shareLimits, wholeInput } from "../../jobs/services.ts";
import {
  type AddCommand,
  confirmation,
  type Context,
  isYes,
  newRunId,
  type Outcome,
  parseShard,
  readRunId,
  wholeNumber,
} from "../command.ts";
import type { Logger } from "../output.ts";
import {
  openConfig,
  openConfiguredWarehouse,
  type OpenedWarehouse,
  openJobServices,
  openPublisher,
} from "../app.ts";
import { billedByJob, readBilledInRun } from "../../load/ledger/costs.ts";
import { renderConnection } from "./database.ts";
import { renderRunSummary } from "./run-summary.ts";
import { createSampleTables } from "./sandbox.ts";
import { durationMs } from "../../config/schema/values.ts";

/** Wait for `--wait` without a duration. */
const DEFAULT_WAIT_MS = 600_000;

interface RunFlags {
  readonly fullRefresh?: boolean;
  readonly resend?: boolean;
  readonly maxRecords?: number;
  readonly shard?: Shard;
  readonly runId?: string;
  /** In milliseconds; true if no duration is given. */
  readonly wait?: number | true;
  readonly yes?: boolean;
  readonly acceptParameters?: "resend" | "keep";
}

/** `run`: runs jobs once. */
export const addRun: AddCommand = (program, act) => {
  program
    .command("run")
    .description("run jobs once, in dependency order")
    .argument("[jobs...]", "configured jobs (default: all)")
    .option("--full-refresh", "read the data of free jobs again from the start")
    .option("--resend", "send every record of the jobs again (asks for confirmation, or needs --yes)")
    .option("--max-records <n>", "send at most this many records per job", wholeNumber(0))
    .option("--shard <i/n>", "process one of n disjoint parts of the input (i from 0 to n - 1)", parseShard)
    .option("--run-id <id>", "ID of this run, for orchestrators such as Airflow", readRunId)
    .addOption(
      new Option(
        "--wait [duration]",
        "wait for jobs that another process is running, instead of ending with exit code 4 (10m if no duration is given)",
      ).argParser(parseDuration),
    )
    .option("--yes", "skip all confirmations")
    .addOption(
      new Option(
        "--accept-parameters <choice>",
        "after a change of mapping or request parameters: buy the answers again or keep them",
      ).choices(["resend", "keep"]),
    )
    .action((jobs: string[], flags: RunFlags, command: Command) =>
      act(command, (context) => run(context, jobs, flags), {
        status: "failed",
        run_id: flags.runId ?? null,
        jobs: [],
      }),
    );
};

async function run(context: Context, names: readonly string[], flags: RunFlags): Promise<Outcome> {
  const shard = flags.shard ?? wholeInput;
  const config = shareLimits(await openConfig(context), shard);
  const jobs = selectJobs(config, names);
  const runId = flags.runId ?? newRunId();
  let db: Db | null = null;
  try {
    const opened = await openConfiguredWarehouse(context, config);
    ({ db } = opened);
    const outcome = await runIn(context, opened, { config, jobs, names, flags, shard, runId });
    return await offerDatabase(context, opened, config, outcome);
  } catch (error) {
    if (!context.stop.signal.aborted) {
      const { alertRunFailure } = await import("../../operate/overview.ts");
      await alertRunFailure({ config, db, clock: systemClock, log: context.log }, error, runId);
    }
    throw error;
  }
}

/** Jobs and options of a run. */
interface Wanted {
  readonly config: Config;
  readonly jobs: readonly JobConfig[];
  readonly names: readonly string[];
  readonly flags: RunFlags;
  readonly shard: Shard;
  readonly runId: string;
}

async function runIn(
  context: Context,
  { db }: OpenedWarehouse,
  { config, jobs, names, flags, shard, runId }: Wanted,
): Promise<Outcome> {
  const startedAtMs = performance.now();
  const { stop } = context;
  const log = context.isWatched && !context.options.json ? withoutFailures(context.log) : context.log;
  await checkServiceHost(config, db);
  if (config.service.baseUrl === "sandbox") await createSampleTables(config, jobs, db, context);
  const own: Context = { ...context, log };
  const services = await openJobServices(own, config, db);
  const publisher = openPublisher(own, config, db);
  // Only the first shard publishes: a destination has one publisher at a time.
  const isPublishing = shard.index === 0;
  if (isPublishing) publisher.startIntervals(systemClock);
  const report = await runJobs(services, {
    jobs: names,
    fullRefresh: flags.fullRefresh === true,
    resend: flags.resend === true,
    maxRecords: flags.maxRecords ?? null,
    shard,
    runId,
    waitMs: flags.wait === true ? DEFAULT_WAIT_MS : (flags.wait ?? 0),
    yes: flags.yes === true,
    acceptParameters: flags.acceptParameters ?? null,
    ...confirmation(context),
  });
  const { concludeRun } = await import("../../operate/overview.ts");
  await concludeRun(services, report, { isWhole: shard.index === 0 });
  const publications = isPublishing && !stop.signal.aborted ? await publisher.publish() : [];
  // Erasures are pending until all destinations are published.
  if (publications.length > 0) {
    await finishErasuresQuietly(services);
  }
  return {
    document: publications.length === 0 ? report : { ...report, publications },
    text: renderRunSummary(report, {
      publications,
      config,
      // Shards of a run share its ID, and a warehouse that is gone must not take the summary with it.
      billed: shard.count > 1 ? null : await readBilledInRun(db, runId).then(billedByJob, () => null),
      seconds: (performance.now() - startedAtMs) / 1000,
      warehouse: db.description,
      widthColumns: context.widthColumns,
    }),
    exitCode: exitCodeOf(report, stop.received()),
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

/** Seconds after which no answer counts as no, so that an unattended terminal ends. */
const OFFER_SECONDS = 60;

/** After a trial run on a terminal, offers to keep the embedded database running. */
async function offerDatabase(
  context: Context,
  opened: OpenedWarehouse,
  config: Config,
  outcome: Outcome,
): Promise<Outcome> {
  const { ask, stop, options, env, widthColumns } = context;
  const isTrial = config.service.baseUrl === "sandbox" && config.warehouse.url === "embedded";
  const isAttended = widthColumns !== null && !options.json && !env["CI"];
  if (!isTrial || !isAttended || ask === null || outcome.exitCode !== 0 || stop.signal.aborted)
    return outcome;
  await context.announce({}, outcome.text);
  const answer = await ask(
    `Keep the database running to query it? [y/N] (no after ${OFFER_SECONDS} s) `,
    AbortSignal.timeout(OFFER_SECONDS * 1000),
  ).catch((error: unknown) => {
    if (codeOf(error) === "ABORT_ERR") return "";
    throw error;
  });
  if (isYes(answer)) {
    await opened.grantReading();
    await context.announce({}, renderConnection(config, opened));
    await context.untilStopped();
  }
  return { ...outcome, document: null, text: "" };
}

/** Parses the duration of a flag to milliseconds. */
function parseDuration(text: string): number {
  const milliseconds = durationMs(text);
  if (milliseconds === null) {
    throw new InvalidArgumentError("Expected a duration such as 90s, 10m or 2h; name jobs before this flag.");
  }
  return milliseconds;
}
