import { z } from "zod";
import type { SegmentMembersJobConfig } from "./settings.ts";
import { cursorCount, cursorInstant } from "../../load/inputs/cursor-values.ts";

/** Checkpoint of one segment. */
export const memberCursor = z.object({
  /** End of the last complete reading, by the service's clock; null for never. */
  swept_at: cursorInstant.nullable().default(null),
  /** Members listed in that reading but not stored because they were erased. */
  suppressed: cursorCount.default(0),
});

/** Parsed {@link memberCursor}. */
export type MemberCheckpoint = Readonly<z.output<typeof memberCursor>>;

/** Checkpoint before the first reading. */
export const neverSwept: MemberCheckpoint = memberCursor.parse({});

/** Parses a stored cursor. An invalid one counts as none, so that all pages are read. */
export function readMemberCheckpoint(cursor: unknown): MemberCheckpoint {
  return memberCursor.safeParse(cursor).data ?? neverSwept;
}

/** Maximum pages of a segment that every run reads completely. */
const SWEEP_ALWAYS_PAGES = 50;

/** True if all pages must be read, regardless of the first ones. */
export function isSweepDue(
  { fullSweepEveryMs }: Pick<SegmentMembersJobConfig, "fullSweepEveryMs">,
  { swept_at: sweptAt }: Pick<MemberCheckpoint, "swept_at">,
  { pages, atMs }: { readonly pages: number; readonly atMs: number },
): boolean {
  return pages <= SWEEP_ALWAYS_PAGES || isOver(sweptAt, fullSweepEveryMs, atMs);
}

/** True if a period since `since` (null: never) is over, or if `since` is in the future, set by a user or a wrong clock. */
export function isOver(since: string | null, everyMs: number, atMs: number): boolean {
  const ageMs = atMs - Date.parse(since ?? "never");
  return !(ageMs >= 0 && ageMs < everyMs);
}
