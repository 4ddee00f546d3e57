import { z } from "zod";
import { cursorInstant } from "../inputs/cursor-values.ts";
import { createHash } from "node:crypto";
import type { LookupSpec } from "./lookup-spec.ts";
import { sql } from "kysely";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";

const VALUE = 'must be a value of the input\'s cursor column, as text: "2026-11-20T22:15:00Z", "4711"';
const STANDS_FOR = "must be the hash written by a run, which identifies the mapping of the value";

/** Position of an input's `cursor` after a complete pass; only narrows the search for changed content. */
export const passCursor = z.object({
  /** Highest cursor value seen, as text. */
  value: z.string(VALUE).refine((text) => !text.includes("\0"), VALUE),
  /** Time of the last comparison of all rows. */
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

/** Reads the checkpoint of a job's last complete pass. */
export async function readCheckpoint(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
): Promise<PassCheckpoint | null> {
  const [row] = await session.rows<{ cursor: unknown }>(sql`
    SELECT cursor FROM ${tableId(names, "checkpoint")}
    WHERE job = ${spec.job} AND stream = ${spec.input.name}`);
  return readPassCheckpoint(row?.cursor);
}

/** Stores the checkpoint in the last transaction of a complete pass. */
export async function writeCheckpoint(
  session: Session,
  names: SchemaNames,
  place: { readonly job: string; readonly source: string; readonly runId: string },
  checkpoint: PassCheckpoint,
): Promise<void> {
  await session.change(sql`
    INSERT INTO ${tableId(names, "checkpoint")} (job, stream, cursor, updated_at, run_id, _synced_at)
    VALUES (${place.job}, ${place.source}, ${JSON.stringify(checkpoint)}::jsonb, now(), ${place.runId}, now())
    ON CONFLICT (job, stream) DO UPDATE SET cursor = excluded.cursor, updated_at = excluded.updated_at,
      run_id = excluded.run_id, _synced_at = excluded._synced_at`);
}
