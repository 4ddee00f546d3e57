import type { Db } from "../../load/db/db.ts";
import {
  type CheckpointMove,
  commit,
  readCheckpoints,
  type StoredCheckpoint,
} from "../../load/write/commit.ts";
import type { JobConfig } from "../../config/config.ts";
import { FixConfigurationError, JobLockedError, type Problem } from "../../errors.ts";
import { holdJob, lockedText } from "../hold-job.ts";
import { jobTypeOf } from "../registry.ts";
import { type JobServices, shardText, wholeInput } from "../services.ts";
import { DAY_MS } from "../usage/calendar.ts";

/** Output of `checkpoint --json`. */
export interface CheckpointReport {
  readonly job: string;
  readonly type: string;
  /** Meaning of a cursor of this job type; for a lookup, the reason why it has none. */
  readonly meaning: string;
  readonly checkpoints: readonly StoredCheckpoint[];
}

type Services = Pick<JobServices, "config" | "db" | "clock">;

/** Why lookups have no checkpoint. */
const NO_CHECKPOINT = "every run compares a fingerprint of each input row";

/** Reads the checkpoints of a job; changes nothing. Those that earlier versions stored for lookups are ignored. */
export async function readCheckpointReport(db: Db, job: JobConfig): Promise<CheckpointReport> {
  const kind = jobTypeOf(job).checkpoints;
  if (kind === null) return { job: job.name, type: job.type, meaning: NO_CHECKPOINT, checkpoints: [] };
  const checkpoints = await readCheckpoints(db, job.name);
  return { job: job.name, type: job.type, meaning: kind.meaning, checkpoints };
}

/** Known streams of a job. Only their checkpoints can be set. */
export async function streamsOf(services: Services, job: JobConfig): Promise<readonly string[]> {
  return (await jobTypeOf(job).checkpoints?.streams(job, services)) ?? [];
}

/**
 * Validates a checkpoint set by the user. Keys not given keep their stored value. Throws a FixConfigurationError for a
 * cursor that the job can't resume from.
 */
export async function givenCheckpoint(
  services: Services,
  job: JobConfig,
  stream: string,
  given: unknown,
): Promise<CheckpointMove> {
  const kind = jobTypeOf(job).checkpoints;
  const { db, clock } = services;
  if (kind === null) {
    const message = `${job.name} has no checkpoint: ${NO_CHECKPOINT}. Nothing was changed.`;
    throw new FixConfigurationError("bad_checkpoint", message);
  }
  const streams = await kind.streams(job, services);
  const refuse = (what: string, problems: readonly Problem[]) =>
    new FixConfigurationError(
      "bad_checkpoint",
      `${what} Nothing was changed. A cursor of ${job.name} looks like ${JSON.stringify(kind.example)}: ${kind.meaning}.`,
      problems,
    );
  if (streams.length === 0) throw refuse(`${job.name} has no checkpoint to set: ${kind.noStream}.`, []);
  if (!streams.includes(stream)) {
    throw refuse(`${job.name} has no stream ${stream}; it has ${streams.join(", ")}.`, []);
  }
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw refuse("A cursor is a JSON object with the keys to change.", []);
  }
  const known = Object.keys(kind.cursor.shape);
  const unknown = Object.keys(given).filter((key) => !known.includes(key));
  const stored = (await readCheckpoints(db, job.name)).find((found) => found.stream === stream)?.cursor;
  const all = Object.entries(typeof stored === "object" ? (stored ?? {}) : {});
  const { on, keys: forgotten } = kind.dependent ?? { on: "", keys: [] };
  const isOther = new Map(Object.entries(given)).get(on) !== new Map(all).get(on);
  const before = all.filter(([key]) => !isOther || !(Object.hasOwn(given, on) && forgotten.includes(key)));
  // Times come from the service, whose clock may differ.
  const times = before.map(([, value]) => timeOf(value));
  const latestMs = Math.max(clock.now(), ...times);
  const read = kind.cursor.safeParse({
    ...Object.fromEntries(before.filter(([key]) => known.includes(key))),
    ...given,
  });
  const problems = [
    ...unknown.map((key) => ({
      path: key,
      message: `is not a key of the cursor; valid keys: ${known.join(", ")}`,
    })),
    ...(read.error?.issues ?? []).map(({ path, message }) => ({ path: path.join("."), message })),
    ...Object.entries(given).flatMap(([key, value]) =>
      timeOf(value) > latestMs + DAY_MS ? [{ path: key, message: "is in the future" }] : [],
    ),
  ];
  if (problems.length > 0 || !read.success) {
    throw refuse(
      `${job.name} can't resume from this cursor${before.length > 0 ? "" : " and no stored cursor completes it"}.`,
      problems,
    );
  }
  return { stream, cursor: read.data };
}

/** Time of a date or instant in a cursor; 0 for anything else. */
function timeOf(value: unknown): number {
  return typeof value === "string" && /^\d{4}-\d\d-\d\d/u.test(value) ? Date.parse(value) || 0 : 0;
}

/** Sets or deletes checkpoints of a job while no process runs it. */
export async function moveCheckpoints(
  services: Pick<JobServices, "config" | "db" | "clock" | "log" | "signal" | "progress">,
  job: JobConfig,
  runId: string,
  /** Called while the job's lock is held. */
  decide: () => Promise<readonly CheckpointMove[]>,
): Promise<void> {
  const wanted = { runId, job: job.name, jobType: job.type, shard: shardText(wholeInput) };
  const hold = await holdJob(services, wanted, { waitMs: 0 });
  if (hold.kind === "refused") {
    const next = "Its checkpoints were not changed; change them after that run.";
    throw new JobLockedError(lockedText(job.name, hold.holders, next));
  }
  const { run, release } = hold.held;
  try {
    await commit(services.db, run, { checkpoints: await decide() });
  } finally {
    await release();
  }
}
