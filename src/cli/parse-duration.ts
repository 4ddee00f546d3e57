import { InvalidArgumentError } from "commander";
import { durationMs } from "../config/schema/values.ts";

/** Parses the duration of a flag to milliseconds. */
export function parseDuration(text: string): number {
  const milliseconds = durationMs(text);
  if (milliseconds === null) {
    throw new InvalidArgumentError("Expected a duration such as 90s, 10m or 2h; name jobs before this flag.");
  }
  return milliseconds;
}
