import { createHash } from "node:crypto";
import { sql } from "kysely";
import type { LookupSpec } from "../warehouse.ts";
import type { RecentBound } from "./input.ts";
import { type SchemaNames, tableId } from "./names.ts";
import type { Session } from "./session.ts";

/** How far an input's `cursor` has been seen by a complete pass; only narrows the search for changed content. */
export interface PassCheckpoint {
  /** Highest cursor value seen, as text. */
  readonly value: string;
  /** When every row was last compared. */
  readonly full_at: string;
  /** Hash of what was compared; another mapping, relation, key or cursor column starts anew. */
  readonly stands_for: string;
}

function standsFor({ input, parametersHash }: LookupSpec): string {
  const { connection, relation, where, key, cursor } = input;
  const parts = [parametersHash, connection?.name ?? null, relation, where, key, cursor?.column ?? null];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}

/** Every row is compared at least this often: a cursor that its writer forgets to move hides changes. */
const FULL_EVERY_MS = 30 * 24 * 60 * 60 * 1000;

/** The checkpoint of a job's last complete pass. */
export async function readCheckpoint(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
): Promise<PassCheckpoint | null> {
  const [row] = await session.rows<{ cursor: PassCheckpoint }>(sql`
    SELECT cursor FROM ${tableId(names, "ops", "checkpoint")}
    WHERE job = ${spec.job} AND stream = ${spec.input.name}`);
  return row?.cursor ?? null;
}

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

/** Moves the checkpoint; in the pass's last transaction, when nothing is left. */
export async function writeCheckpoint(
  session: Session,
  names: SchemaNames,
  place: { readonly job: string; readonly source: string; readonly runId: string },
  checkpoint: PassCheckpoint,
): Promise<void> {
  await session.change(sql`
    INSERT INTO ${tableId(names, "ops", "checkpoint")} (job, stream, cursor, updated_at, run_id, _synced_at)
    VALUES (${place.job}, ${place.source}, ${JSON.stringify(checkpoint)}::jsonb, now(), ${place.runId}, now())
    ON CONFLICT (job, stream) DO UPDATE SET cursor = excluded.cursor, updated_at = excluded.updated_at,
      run_id = excluded.run_id, _synced_at = excluded._synced_at`);
}
