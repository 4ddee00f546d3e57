import { z } from "zod";
import type { SegmentMembersJobConfig } from "./settings.ts";
import { cursorInstant } from "../../load/inputs/cursor-values.ts";

const COUNT = "must be a count: a whole number, 0 or more";

/** Checkpoint of one segment. */
export const memberCursor = z.object({
  /** End of the last reading of all pages, by the service's clock; null for never. */
  swept_at: cursorInstant.nullable().default(null),
  /** Members that reading listed and did not store because they were erased. */
  suppressed: z.int(COUNT).min(0, COUNT).default(0),
});

/** Parsed {@link memberCursor}. */
export type MemberCheckpoint = Readonly<z.output<typeof memberCursor>>;

/** The checkpoint before the first reading. */
export const neverSwept: MemberCheckpoint = memberCursor.parse({});

/** Reads a stored cursor. An unreadable one counts as none: all pages are read. */
export function readMemberCheckpoint(cursor: unknown): MemberCheckpoint {
  return memberCursor.safeParse(cursor).data ?? neverSwept;
}

/** Pages of a segment that every run reads completely. */
const SWEEP_ALWAYS_PAGES = 50;

/** True if all pages have to be read whatever the first ones show. */
export function isSweepDue(
  { fullSweepEveryMs }: Pick<SegmentMembersJobConfig, "fullSweepEveryMs">,
  { swept_at: sweptAt }: Pick<MemberCheckpoint, "swept_at">,
  { pages, atMs }: { readonly pages: number; readonly atMs: number },
): boolean {
  return pages <= SWEEP_ALWAYS_PAGES || isOver(sweptAt, fullSweepEveryMs, atMs);
}

/** True if a period that began at `since` (null: never) is over. A time in the future, set by a user or a wrong clock, is ignored. */
export function isOver(since: string | null, everyMs: number, atMs: number): boolean {
  const ageMs = atMs - Date.parse(since ?? "never");
  return !(ageMs >= 0 && ageMs < everyMs);
}
