import type { Command } from "commander";
import { type AddCommand, type Context, newRunId, type Outcome, requireYes, result } from "../command.ts";
import { UsageError } from "../failure.ts";
import { openConfig, openFilledWarehouse } from "../app.ts";
import { renderTable } from "../output.ts";
import { systemClock } from "../../clock.ts";
import type { Config, JobConfig } from "../../config/config.ts";
import { countText } from "../../figures.ts";
import { findJob } from "../../jobs/job-selection.ts";
import { isLookupJob } from "../../jobs/lookup/lookup-types.ts";
import {
  type CheckpointReport,
  givenCheckpoint,
  moveCheckpoints,
  readCheckpointReport,
  streamsOf,
} from "../../jobs/report/checkpoints.ts";
import type { Db } from "../../load/db/db.ts";
import type { CheckpointMove } from "../../load/write/commit.ts";

interface ChangeFlags {
  readonly stream?: string;
  readonly yes?: boolean;
}

/** `checkpoint`: shows or changes the positions from which jobs resume. */
export const addCheckpoint: AddCommand = (program, act) => {
  const checkpoint = program.command("checkpoint").description("show or change a job's checkpoints");
  checkpoint
    .command("show")
    .description("show a job's checkpoints by stream, with their meaning")
    .argument("<job>", "configured job")
    .action((name: string, _flags: object, command: Command) =>
      act(command, async (context) => show(context, await openJob(context, name))),
    );
  checkpoint
    .command("set")
    .description("change a checkpoint (asks for confirmation, or needs --yes)")
    .argument("<job>", "configured job")
    .argument("<cursor>", "keys to change, as JSON; others are kept")
    .option("--stream <name>", "stream of the checkpoint; required if the job has several")
    .option("--yes", "skip the confirmation")
    .action((name: string, cursor: string, flags: ChangeFlags, command: Command) =>
      act(command, async (context) => set(context, await openJob(context, name), cursor, flags)),
    );
  checkpoint
    .command("reset")
    .description(
      "delete a job's checkpoints, so that it starts from the beginning (asks for confirmation, or needs --yes)",
    )
    .argument("<job>", "configured job")
    .option("--stream <name>", "delete only the checkpoint of this stream")
    .option("--yes", "skip the confirmation")
    .action((name: string, flags: ChangeFlags, command: Command) =>
      act(command, async (context) => reset(context, await openJob(context, name), flags)),
    );
};

/** Formats a checkpoint's cursor for people: its position; `--json` has all of it. */
export function cursorText(cursor: unknown): string {
  if (typeof cursor !== "object" || cursor === null) return String(cursor);
  return Object.entries(cursor)
    .flatMap(([name, value]) => {
      if (value === null || typeof value === "object") return [];
      return [`${name.replaceAll("_", " ")} ${value}`];
    })
    .join(", ");
}

/** Job with the warehouse that stores its checkpoints. */
interface OpenedJob {
  readonly job: JobConfig;
  readonly db: Db;
  readonly config: Config;
  /** Changes checkpoints while no other process runs the job. */
  readonly change: (decide: () => Promise<readonly CheckpointMove[]>) => Promise<void>;
}

async function openJob(context: Context, name: string): Promise<OpenedJob> {
  const config = await openConfig(context);
  const job = findJob(config, name);
  const db = await openFilledWarehouse(context, config);
  return {
    job,
    db,
    config,
    async change(decide) {
      const { log, progress, stop } = context;
      const services = { config, db, clock: systemClock, log, signal: stop.signal, progress };
      await moveCheckpoints(services, job, newRunId(), decide);
    },
  };
}

async function show({ widthColumns }: Context, { job, db }: OpenedJob): Promise<Outcome> {
  const report = await readCheckpointReport(db, job);
  const text = isLookupJob(job)
    ? `${job.name} has no checkpoint: ${report.meaning}.`
    : render(report, widthColumns);
  return result(report, text);
}

async function set(
  context: Context,
  opened: OpenedJob,
  text: string,
  { stream, yes }: ChangeFlags,
): Promise<Outcome> {
  const { job, config, db } = opened;
  const services = { config, db, clock: systemClock };
  const given = readCursor(text);
  const [first = "", ...others] = await streamsOf(services, job);
  if (stream === undefined && others.length > 0) {
    const known = [first, ...others].join(", ");
    throw new UsageError(`${job.name} has several checkpoints. Choose one with --stream: ${known}.`);
  }
  const chosen = stream ?? first;
  // Validate before asking.
  await givenCheckpoint(services, job, chosen, given);
  await requireYes(context, yes, `${job.name} will resume stream ${chosen} from a different position`);
  await opened.change(async () => [await givenCheckpoint(services, job, chosen, given)]);
  return await show(context, opened);
}

function readCursor(text: string): unknown {
  try {
    const cursor: unknown = JSON.parse(text);
    if (cursor !== null) return cursor;
  } catch {
    // Handled like null below.
  }
  throw new UsageError(
    "The cursor must be JSON like the one that `checkpoint show --json` prints, and not null.",
  );
}

async function reset(context: Context, opened: OpenedJob, { stream, yes }: ChangeFlags): Promise<Outcome> {
  const find = async () => {
    const { checkpoints } = await readCheckpointReport(opened.db, opened.job);
    return checkpoints.filter((checkpoint) => stream === undefined || checkpoint.stream === stream);
  };
  const meant = await find();
  if (meant.length === 0 && stream !== undefined) {
    throw new UsageError(`${opened.job.name} has no checkpoint for the stream ${stream}.`);
  }
  if (meant.length > 0) {
    const what = `${countText(meant.length, "checkpoint")} of ${opened.job.name} will be deleted`;
    await requireYes(context, yes, what);
    // A run may have changed them while waiting for the confirmation.
    await opened.change(async () => (await find()).map(({ stream }) => ({ stream, cursor: null })));
  }
  return await show(context, opened);
}

function render({ job, meaning, checkpoints }: CheckpointReport, widthColumns: number | null): string {
  if (checkpoints.length === 0) return `${job} has no checkpoint: its next run starts from the beginning.`;
  const table = renderTable(
    [{ name: "stream" }, { name: "position" }, { name: "changed at" }, { name: "by run", drop: 1 }],
    checkpoints.map(({ stream, cursor, updated_at, run_id }) => [
      stream,
      cursorText(cursor),
      updated_at,
      run_id,
    ]),
    widthColumns,
  );
  return `${table}\n\n${meaning}.`;
}
