import { StopJobError } from "../../errors.ts";
import { readCreated } from "../../extract/segment-change.ts";
import type { Upsert } from "../../load/write/upsert.ts";
import { DriftLog } from "../../schemas/drift.ts";
import { segmentEndpoints } from "../../schemas/segments.ts";
import type { FeedContext } from "../feed-type.ts";
import { describeRename, PUSH_STREAM, type PushCheckpoint, readPushCheckpoint } from "./push-checkpoint.ts";
import type { SegmentPushJobConfig } from "./settings.ts";

const { create } = segmentEndpoints;

type Context = FeedContext<SegmentPushJobConfig>;

/** Returns the checkpoint of the job's segment; creates the segment if there is none. */
export async function findOrCreate(context: Context): Promise<PushCheckpoint> {
  const { job, checkpoints } = context;
  const known = readPushCheckpoint(job, [...checkpoints.values()]);
  if (known !== null) return known;
  for (const text of describeRename(job, [...checkpoints.values()])) context.progress.note(job.name, text);
  const { segmentName: name, description } = job;
  const drift = new DriftLog(create.name);
  const reply = await context.call({
    endpoint: create.name,
    method: create.method,
    path: create.path,
    body: JSON.stringify(description === null ? { name } : { name, description }),
    expects: [409],
    read: (bytes) => readCreated(bytes, drift),
  });
  if (reply.kind === "refused") {
    const why = reply.mayBeDone
      ? "an earlier attempt of this call without an answer may have created it"
      : "it was created elsewhere, or by an earlier run whose call got no answer";
    throw new StopJobError(
      "segment_exists",
      `${job.name}: ${create.name}: a segment named "${name}" already exists (409): ${why}. To fill it, look up its id in the ` +
        "service's web application and set `segment_id:` for this job. Otherwise choose another `name:`.",
    );
  }
  const created = { segment_id: reply.value, read_at: null, size: 0 };
  await keepSegment(context, created, { isNew: true });
  context.log.info({ job: job.name, segment_id: created.segment_id }, "segment_created");
  return created;
}

/** Stores the checkpoint and the row of the segment. */
export async function keepSegment(
  context: Context,
  checkpoint: PushCheckpoint,
  { isNew = false, upserts = [] }: { readonly isNew?: boolean; readonly upserts?: readonly Upsert[] },
): Promise<void> {
  const { job } = context;
  const row = {
    segment_id: checkpoint.segment_id,
    ...(checkpoint.size === null ? {} : { current_size: String(checkpoint.size) }),
    ...(job.segmentName === null ? {} : { name: job.segmentName }),
    // The service has no call that changes it.
    ...(job.description === null || !isNew ? {} : { description: job.description }),
    ...(job.segmentId === null ? { source: "api" } : {}),
  };
  await context.commit({
    upserts: [
      { table: "segment", columns: Object.keys(row), rows: [Object.values(row)], isBookkeeping: !isNew },
      ...upserts,
    ],
    checkpoints: [{ stream: PUSH_STREAM, cursor: { ...checkpoint, name: job.segmentName } }],
  });
}

/** Error for a push into a segment that does not exist. */
export function gone(
  { job }: Context,
  endpoint: string,
  segmentId: string,
  isChanged: boolean,
): StopJobError {
  const reset = job.segmentId === null ? ` or run \`checkpoint reset ${job.name}\` to create a new one` : "";
  const soFar = isChanged ? "Earlier changes are kept." : "Nothing was changed.";
  return new StopJobError(
    "segment_gone",
    `${job.name}: ${endpoint}: the service has no segment ${segmentId} (404): it was deleted, or belongs to another ` +
      `organization. ${soFar} Correct \`segment_id:\`${reset}.`,
  );
}
