import type { SegmentMembersJobConfig } from "./settings.ts";
import type { MemberCheckpoint } from "./member-checkpoint.ts";

/** Pages of a segment that is read as a whole by each run. */
const SWEEP_ALWAYS_PAGES = 50;

/** Whether all pages of a segment have to be read whatever the first ones say. */
export function isSweepDue(
  { fullSweepEveryMs }: Pick<SegmentMembersJobConfig, "fullSweepEveryMs">,
  { swept_at: sweptAt, unfinished }: MemberCheckpoint,
  { pages, atMs }: { readonly pages: number; readonly atMs: number },
): boolean {
  if (sweptAt === null || unfinished !== null || pages <= SWEEP_ALWAYS_PAGES) return true;
  const ageMs = atMs - Date.parse(sweptAt);
  // A time to come, which a user or a wrong clock may have set, says nothing.
  return !(ageMs >= 0 && ageMs < fullSweepEveryMs);
}
