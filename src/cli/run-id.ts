import { randomBytes } from "node:crypto";
import { InvalidArgumentError } from "commander";

/** Generates a run ID that sorts by time. */
export function newRunId(nowMs: number): string {
  const time = new Date(nowMs).toISOString().slice(0, 19).replaceAll(/[-:]/g, "");
  return `${time}Z-${randomBytes(4).toString("hex")}`;
}

/** Parses the run ID of a scheduler (`scheduled__2026-11-20T01:15:00+00:00`). */
export function readRunId(text: string): string {
  if (/^[\w.:+@/-]{1,200}$/.test(text)) return text;
  throw new InvalidArgumentError("Expected 1 to 200 letters, digits and . _ : + @ / -");
}
