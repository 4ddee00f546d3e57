import { sql } from "kysely";
import { nextCallNumber, type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { LookupSpec } from "./lookup-spec.ts";

/**
 * Returns the call number below which `--resend` repeats answers; null if nothing was ever answered. A resend in
 * progress continues until every row is answered; only then does a new one start.
 * @param isUnderWay returns true while rows of the whole input are still to be sent again
 */
export async function resendBefore(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
  isUnderWay: (before: number) => Promise<boolean>,
): Promise<number | null> {
  const parameters = tableId(names, "job_parameters");
  // Another shard may start the same resend concurrently.
  const [stored] = await session.rows<{ resend_before: number | null }>(sql`
    SELECT resend_before FROM ${parameters} WHERE job = ${spec.job} FOR UPDATE`);
  if (!stored) return null;
  const { resend_before: before } = stored;
  if (before !== null && (await isUnderWay(before))) return before;
  const [begun] = await session.rows<{ resend_before: number }>(sql`
    UPDATE ${parameters} SET resend_before = ${nextCallNumber(names)}, _synced_at = now() WHERE job = ${spec.job}
    RETURNING resend_before`);
  return begun?.resend_before ?? null;
}
