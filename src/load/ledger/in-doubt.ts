import { sql } from "kysely";
import { tableId, type SchemaNames } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { RunRef } from "../runs/run-ref.ts";

/**
 * Counts a job's records that may have been billed without a result and were not sent again since. Shards share them
 * out evenly: the first records that each sends count as possibly billed twice.
 */
export async function countInDoubt(
  session: Session,
  names: SchemaNames,
  { job, shard }: Pick<RunRef, "job" | "shard">,
): Promise<number> {
  const [found] = await session.rows<{ records: number }>(sql`
    SELECT ceil(greatest(0, coalesce(sum(records_in_doubt - records_possibly_billed_twice), 0))
      / split_part(${shard}, '/', 2)::numeric)::bigint AS records
    FROM ${tableId(names, "api_call")}
    WHERE job = ${job} AND (records_in_doubt > 0 OR records_possibly_billed_twice > 0)`);
  return found?.records ?? 0;
}
