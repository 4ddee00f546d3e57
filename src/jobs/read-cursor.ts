import type { z } from "zod";
import { StopJobError } from "../errors.ts";
import type { StoredCheckpoint } from "../load/write/checkpoints.ts";
import type { RunRequest } from "./services.ts";

/**
 * Returns the cursor of a stream; null before its first commit and with `--full-refresh`. Throws a StopJobError for an
 * invalid cursor.
 */
export function readCursor<T>(
  {
    checkpoints,
    job,
    request,
  }: {
    readonly checkpoints: ReadonlyMap<string, Pick<StoredCheckpoint, "cursor">>;
    readonly job: { readonly name: string };
    readonly request: Pick<RunRequest, "fullRefresh">;
  },
  stream: string,
  schema: z.ZodType<T>,
): T | null {
  const stored = checkpoints.get(stream);
  if (!stored || request.fullRefresh) return null;
  const read = schema.safeParse(stored.cursor);
  if (read.success) return read.data;
  throw new StopJobError(
    "bad_checkpoint",
    `${job.name}: the checkpoint of stream ${stream} can't be read: ${issuesOf(read.error)}. Fix it with \`person-etl checkpoint set ` +
      `${job.name}\`, or delete it with \`person-etl checkpoint reset ${job.name}\`.`,
  );
}

/** Problems of a cursor by key: `next must be …`. */
export function issuesOf({ issues }: z.ZodError): string {
  return issues
    .map(({ path: [key], message }) => `${key === undefined ? "it" : String(key)} ${message}`)
    .join("; ");
}
