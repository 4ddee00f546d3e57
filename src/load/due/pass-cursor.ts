import { z } from "zod";
import { cursorInstant } from "../inputs/cursor-values.ts";

const VALUE = 'must be a value of the input\'s cursor, as text: "2026-11-20T22:15:00Z", "4711"';
const STANDS_FOR = "must be what a run has written there: it says of which mapping the value was seen";

/** How far an input's `cursor` has been seen by a complete pass; only narrows the search for changed content. */
export const passCursor = z.object({
  /** Highest cursor value seen, as text. */
  value: z.string(VALUE).refine((text) => !text.includes("\0"), VALUE),
  /** When every row was last compared. */
  full_at: cursorInstant,
  /** Hash of what was compared; another mapping, relation, key or cursor column starts anew. */
  stands_for: z.string(STANDS_FOR).regex(/^[0-9a-f]{64}$/u, STANDS_FOR),
});

/** A stored cursor of a pass. */
export type PassCheckpoint = Readonly<z.output<typeof passCursor>>;

/** Reads a stored cursor. One that isn't of this shape counts as none: then every row is compared. */
export function readPassCheckpoint(cursor: unknown): PassCheckpoint | null {
  return passCursor.safeParse(cursor).data ?? null;
}
