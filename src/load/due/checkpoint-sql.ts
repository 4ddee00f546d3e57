import { sql } from "kysely";
import { type PassCheckpoint, readPassCheckpoint } from "./pass-cursor.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { LookupSpec } from "./lookup-spec.ts";

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
