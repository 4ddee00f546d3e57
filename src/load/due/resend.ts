import { sql } from "kysely";
import { nextCallNumber, type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { LookupSpec } from "./lookup-spec.ts";

/**
 * Returns the call number below which `--resend` repeats answers; null if nothing was ever answered. A resend that is
 * under way continues until every row is answered; only then does another one begin, and never under the id of a run
 * that took part in the last one: an orchestrator retries its task under the same id.
 * @param runId id of the run; null for a plan.
 * @param isUnderWay tells whether rows of the whole input are still to be sent again.
 */
export async function resendBefore(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
  runId: string | null,
  isUnderWay: (before: number) => Promise<boolean>,
): Promise<number | null> {
  const parameters = tableId(names, "job_parameters");
  // Another shard may start the same resend concurrently.
  const [stored] = await session.rows<{ resend_before: number | null }>(sql`
    SELECT resend_before FROM ${parameters} WHERE job = ${spec.job} FOR UPDATE`);
  if (!stored) return null;
  const { resend_before: before } = stored;
  if (before !== null && (await isUnderWay(before))) return before;
  if (before !== null && runId !== null) {
    const [ours] = await session.rows(sql`
      SELECT FROM ${tableId(names, "api_call")}
      WHERE run_id = ${runId} AND job = ${spec.job} AND call_number > ${before} LIMIT 1`);
    if (ours) return before;
  }
  const [begun] = await session.rows<{ resend_before: number }>(sql`
    UPDATE ${parameters} SET resend_before = ${nextCallNumber(names)}, _synced_at = now() WHERE job = ${spec.job}
    RETURNING resend_before`);
  return begun?.resend_before ?? null;
}
