import type { PassCheckpoint } from "./pass-cursor.ts";
import { createHash } from "node:crypto";
import type { LookupSpec } from "./lookup-spec.ts";

/** Lower bound of recently changed rows. Rows with an older cursor keep their stored hash. */
export interface RecentBound {
  /** Highest cursor value of the last complete pass, as text. */
  readonly value: string;
}

function scopeHash({ input, parametersHash }: LookupSpec): string {
  const { connection, relation, where, key, cursor } = input;
  const parts = [parametersHash, connection?.name ?? null, relation, where, key, cursor?.column ?? null];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}

/** Maximum time between full comparisons, which find changes that did not move the cursor. */
const FULL_EVERY_MS = 30 * 24 * 60 * 60 * 1000;

/** Bound that a checkpoint sets for this pass; null for a full comparison. */
export function recentBound(
  checkpoint: PassCheckpoint | null,
  spec: LookupSpec,
  now: string,
): RecentBound | null {
  if (checkpoint === null || spec.input.cursor === null) return null;
  if (checkpoint.stands_for !== scopeHash(spec)) return null;
  if (Date.parse(now) - Date.parse(checkpoint.full_at) > FULL_EVERY_MS) return null;
  return { value: checkpoint.value };
}

/** Checkpoint after this pass. `narrowedBy` is the checkpoint that narrowed it; null if every row was compared. */
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
    stands_for: scopeHash(spec),
  };
}
