import { localServices, openConfig, openFilledWarehouse } from "../app.ts";
import { type Context, newRunId, requireYes, result } from "../command.ts";
import { UsageError } from "../failure.ts";
import { paragraphs, table } from "../output.ts";
import { countText } from "../../figures.ts";
import { findJob } from "../../jobs/job-selection.ts";
import { isLookupJob } from "../../jobs/lookup/lookup-types.ts";
import {
  givenCheckpoint,
  moveCheckpoints,
  readCheckpointReport,
  streamsOf,
} from "../../jobs/report/checkpoints.ts";

interface ChangeFlags {
  readonly stream?: string;
  readonly yes?: boolean;
}

async function open(context: Context, name: string) {
  const config = await openConfig(context);
  const job = findJob(config, name);
  const db = await openFilledWarehouse(context, config);
  return { job, services: localServices(context, config, db) };
}

export async function show(context: Context, _flags: object, name: string) {
  return await report(await open(context, name));
}

async function report({ job, services }: Awaited<ReturnType<typeof open>>) {
  const found = await readCheckpointReport(services.db, job);
  const { meaning, checkpoints } = found;
  if (isLookupJob(job)) return result(found, `${job.name} has no checkpoint: ${meaning}.`);
  if (checkpoints.length === 0)
    return result(found, `${job.name} has no checkpoint: its next run starts from the beginning.`);
  const text = table(checkpoints, {
    stream: ({ stream }) => stream,
    position: ({ cursor }) => cursorText(cursor),
    "changed at": (checkpoint) => checkpoint.updated_at,
    "by run": (checkpoint) => checkpoint.run_id,
  });
  return result(found, paragraphs(text, `${meaning}.`));
}

/** Formats a checkpoint's cursor for people: its position; `--json` has all of it. */
export function cursorText(cursor: unknown): string {
  if (typeof cursor !== "object" || cursor === null) return String(cursor);
  return Object.entries(cursor)
    .filter(([, value]) => value !== null && typeof value !== "object")
    .map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`)
    .join(", ");
}

export async function set(context: Context, { stream, yes }: ChangeFlags, name: string, text: string) {
  const opened = await open(context, name);
  const { job, services } = opened;
  const cursor = readCursor(text);
  const [first = "", ...others] = await streamsOf(services, job);
  if (stream === undefined && others.length > 0) {
    const known = [first, ...others].join(", ");
    throw new UsageError(`${name} has several checkpoints. Choose one with --stream: ${known}.`);
  }
  const chosen = stream ?? first;
  // Validate before asking.
  await givenCheckpoint(services, job, chosen, cursor);
  await requireYes(context, yes, `${name} will resume stream ${chosen} from a different position`);
  const decide = async () => [await givenCheckpoint(services, job, chosen, cursor)];
  await moveCheckpoints(services, job, newRunId(), decide);
  return await report(opened);
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

/** Deletes checkpoints, so that the job starts from the beginning. */
export async function reset(context: Context, { stream, yes }: ChangeFlags, name: string) {
  const opened = await open(context, name);
  const { job, services } = opened;
  const find = async () => {
    const { checkpoints } = await readCheckpointReport(services.db, job);
    return checkpoints.filter((checkpoint) => stream === undefined || checkpoint.stream === stream);
  };
  const meant = await find();
  if (meant.length === 0 && stream !== undefined) {
    throw new UsageError(`${name} has no checkpoint for the stream ${stream}.`);
  }
  if (meant.length > 0) {
    await requireYes(context, yes, `${countText(meant.length, "checkpoint")} of ${name} will be deleted`);
    // A run may have changed them while waiting for the confirmation.
    const decide = async () => (await find()).map((found) => ({ stream: found.stream, cursor: null }));
    await moveCheckpoints(services, job, newRunId(), decide);
  }
  return await report(opened);
}
