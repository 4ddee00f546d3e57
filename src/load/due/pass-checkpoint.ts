import { createHash } from "node:crypto";
import { z } from "zod";
import { cursorInstant } from "../inputs/cursor-values.ts";
import type { LookupSpec } from "../warehouse.ts";

/** How far back the search for changed content goes: rows whose cursor is older than this keep their stored hash. */
export interface RecentBound {
  /** Last cursor value that a complete pass has seen, as text. */
  readonly value: string;
}

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

/** What {@link passCursor} reads. */
export type PassCheckpoint = Readonly<z.output<typeof passCursor>>;

/** Reads a stored cursor. One that isn't of this shape counts as none: then every row is compared. */
export function readPassCheckpoint(cursor: unknown): PassCheckpoint | null {
  return passCursor.safeParse(cursor).data ?? null;
}

function standsFor({ input, parametersHash }: LookupSpec): string {
  const { connection, relation, where, key, cursor } = input;
  const parts = [parametersHash, connection?.name ?? null, relation, where, key, cursor?.column ?? null];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}

/** Every row is compared at least this often: a cursor that its writer forgets to move hides changes. */
const FULL_EVERY_MS = 30 * 24 * 60 * 60 * 1000;

/** The bound that a checkpoint sets for this pass; null for a full comparison. */
export function recentBound(
  checkpoint: PassCheckpoint | null,
  spec: LookupSpec,
  now: string,
): RecentBound | null {
  if (checkpoint === null || spec.input.cursor === null) return null;
  if (checkpoint.stands_for !== standsFor(spec)) return null;
  if (Date.parse(now) - Date.parse(checkpoint.full_at) > FULL_EVERY_MS) return null;
  return { value: checkpoint.value };
}

/** The checkpoint after this pass. `narrowedBy` is the one that narrowed it, null when every row was compared. */
export function nextCheckpoint(
  spec: LookupSpec,
  cursorMax: string | null,
  narrowedBy: PassCheckpoint | null,
  now: string,
): PassCheckpoint | null {
  if (cursorMax === null || spec.input.cursor === null) return null;
  return {
    value: cursorMax,
    full_at: narrowedBy?.full_at ?? now,
    stands_for: standsFor(spec),
  };
}
