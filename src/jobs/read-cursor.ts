import type { z } from "zod";
import { StopJobError } from "../errors.ts";
import type { FeedContext } from "./feed-type.ts";

/** The cursor of a stream; null before its first commit. Throws a StopJobError for one that isn't of this shape. */
export function readCursor<T>(
  { checkpoints, job }: Pick<FeedContext, "checkpoints" | "job">,
  stream: string,
  schema: z.ZodType<T>,
): T | null {
  const stored = checkpoints.get(stream);
  if (!stored) return null;
  const read = schema.safeParse(stored.cursor);
  if (read.success) return read.data;
  throw new StopJobError(
    "bad_checkpoint",
    `${job.name}: the checkpoint of ${stream} can't be read. Set it anew, or forget it with \`person-etl checkpoint reset ${job.name}\`.`,
  );
}
