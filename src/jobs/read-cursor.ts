import type { z } from "zod";
import { StopJobError } from "../errors.ts";
import type { FeedContext } from "./feed-type.ts";
import type { RunRequest } from "./services.ts";

/**
 * The cursor of a stream; null before its first commit, and where everything is to be read again. Throws a StopJobError for one
 * that isn't of this shape.
 */
export function readCursor<T>(
  {
    checkpoints,
    job,
    request,
  }: Pick<FeedContext, "checkpoints" | "job"> & { readonly request: Pick<RunRequest, "fullRefresh"> },
  stream: string,
  schema: z.ZodType<T>,
): T | null {
  const stored = checkpoints.get(stream);
  if (!stored || request.fullRefresh) return null;
  const read = schema.safeParse(stored.cursor);
  if (read.success) return read.data;
  throw new StopJobError(
    "bad_checkpoint",
    `${job.name}: the checkpoint of ${stream} can't be read. Set it anew, or forget it with \`person-etl checkpoint reset ${job.name}\`.`,
  );
}
