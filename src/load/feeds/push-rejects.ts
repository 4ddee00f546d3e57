import { type RawBuilder, sql } from "kysely";
import { tableId } from "../db/names.ts";
import { erasedSql } from "../erasure/naming.ts";
import type { FeedLoadContext } from "./feeds.ts";
import type { RunRef } from "../runs/run-ref.ts";

/** PIDs that the service reported as unknown. */
export interface InvalidPids {
  readonly invalid: readonly string[];
  readonly apiRequestId: string | null;
  readonly rejectMessage: string;
}

/** Resolves the rejects of PIDs that the service now accepts. */
export async function resolveRejects(
  context: FeedLoadContext,
  run: RunRef,
  isKnown: RawBuilder<unknown>,
): Promise<void> {
  const resolved = await context.session.change(sql`
    UPDATE ${tableId(context.names, "reject")} AS r SET resolved_at = now(), _synced_at = now()
    WHERE r.job = ${run.job} AND r.source = ${run.job} AND r.code = 'unknown_pid' AND r.resolved_at IS NULL AND ${isKnown}`);
  context.touch("reject", resolved);
}

/** Rejects PIDs, with one open reject each. */
export async function rejectInvalid(
  context: FeedLoadContext,
  run: RunRef,
  { invalid, apiRequestId, rejectMessage }: InvalidPids,
): Promise<void> {
  if (invalid.length === 0) return;
  const { names, erasures } = context;
  const reject = tableId(names, "reject");
  const isErased = erasures.key ? erasedSql(names, erasures.key).pid("pid") : sql`false`;
  const written = await context.session.change(sql`
    INSERT INTO ${reject} (reject_id, run_id, job, source, source_key, stage, code, message, details, api_request_id,
      created_at, _synced_at)
    SELECT gen_random_uuid(), ${run.runId}, ${run.job}, ${run.job}, pid, 'send', 'unknown_pid', ${rejectMessage}, NULL,
      ${apiRequestId}, now(), now()
    FROM unnest(${[...new Set(invalid)]}::text[]) AS u(pid)
    WHERE NOT (${isErased}) AND NOT EXISTS (
      SELECT FROM ${reject} AS r WHERE r.job = ${run.job} AND r.source_key = pid AND r.resolved_at IS NULL)`);
  context.touch("reject", written);
}
