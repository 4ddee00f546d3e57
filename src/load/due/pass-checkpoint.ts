import type { PassCheckpoint } from "./pass-cursor.ts";
import { createHash } from "node:crypto";
import type { LookupSpec } from "../lookup.ts";

/** How far back the search for changed content goes: rows whose cursor is older than this keep their stored hash. */
export interface RecentBound {
  /** Last cursor value that a complete pass has seen, as text. */
  readonly value: string;
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
