import { type RawBuilder, sql } from "kysely";
import type { LoadSpec } from "./lookup-spec.ts";

/** SQL for the fraction (0 to 1) by which a first answer expires early, derived from the sent hash. */
function spreadOf(sentHash: string): string {
  return `(('x' || encode(substring(${sentHash} FROM 1 FOR 4), 'hex'))::bit(32)::bigint / 4294967296.0)`;
}

/** SQL columns that determine when an answer expires. */
export interface AnswerColumns {
  readonly answeredAt: string;
  readonly outcome: string;
  readonly sentHash: string;
  /** SQL condition: the row had no answer before. */
  readonly isFirst: string;
}

/**
 * SQL for the expiry of an answer; null for never. First answers expire up to 20 % early, so
 * that records sent in one night don't all become due in the same night.
 */
export function dueAt(
  spec: Pick<LoadSpec, "refreshAfterMs" | "refreshUnmatchedAfterMs">,
  { answeredAt, outcome, sentHash, isFirst }: AnswerColumns,
): RawBuilder<unknown> {
  const unmatchedMs = spec.refreshUnmatchedAfterMs ?? spec.refreshAfterMs;
  return sql`${sql.raw(answeredAt)}
    + CASE WHEN ${sql.raw(outcome)} = 'matched' THEN ${spec.refreshAfterMs}::float8 ELSE ${unmatchedMs}::float8 END
    * CASE WHEN ${sql.raw(isFirst)} THEN 1 - 0.2 * ${sql.raw(spreadOf(sentHash))} ELSE 1 END * interval '1 millisecond'`;
}
