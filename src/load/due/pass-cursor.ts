import { z } from "zod";
import { cursorInstant } from "../inputs/cursor-values.ts";

const VALUE = 'must be a value of the input\'s cursor column, as text: "2026-11-20T22:15:00Z", "4711"';
const STANDS_FOR = "must be the hash written by a run, which identifies the mapping of the value";

/** Position of an input's `cursor` after a complete pass; only narrows the search for changed content. */
export const passCursor = z.object({
  /** Highest cursor value seen, as text. */
  value: z.string(VALUE).refine((text) => !text.includes("\0"), VALUE),
  /** When every row was last compared. */
  full_at: cursorInstant,
  /** Hash of the mapping, relation, key and cursor column; a different one restarts the comparison. */
  stands_for: z.string(STANDS_FOR).regex(/^[0-9a-f]{64}$/u, STANDS_FOR),
});

/** Stored cursor of a pass. */
export type PassCheckpoint = Readonly<z.output<typeof passCursor>>;

/** Parses a stored cursor. An invalid one counts as none, so that every row is compared. */
export function readPassCheckpoint(cursor: unknown): PassCheckpoint | null {
  return passCursor.safeParse(cursor).data ?? null;
}
