import { z } from "zod";
import { cursorInstant } from "../../load/inputs/cursor-values.ts";

const COUNT = "must be a count: a whole number, 0 or more";
const PAGE = 'must be a page, or null: {"next_page": 12}';

/** What a segment_members job remembers of a segment. */
export const memberCursor = z.object({
  /** When the last sweep of all pages ended, by the service's clock; null for never. */
  swept_at: cursorInstant.nullable().default(null),
  /** When the last sweep that showed everybody and left nothing unproven began; null for never. */
  complete_at: cursorInstant.nullable().default(null),
  /** Members whom that sweep saw and didn't store, because they were erased. */
  suppressed: z.int(COUNT).min(0, COUNT).default(0),
  /** A sweep that didn't come to its end, and the page with which it goes on; null for none. */
  unfinished: z
    .object({ next_page: z.int(PAGE).min(1, PAGE) }, PAGE)
    .nullable()
    .default(null),
});

/** What {@link memberCursor} reads. */
export type MemberCheckpoint = Readonly<z.output<typeof memberCursor>>;

/** Nothing is known. */
export const neverSwept: MemberCheckpoint = memberCursor.parse({});

/** Reads a stored cursor. One that isn't of this shape counts as none: then all pages are read. */
export function readMemberCheckpoint(cursor: unknown): MemberCheckpoint {
  return memberCursor.safeParse(cursor).data ?? neverSwept;
}
