import { type RawBuilder, sql } from "kysely";
import type { LoadSpec } from "../lookup.ts";

/** Share of the refresh age by which a first answer expires early, 0 to 1, from the hash of what was sent. */
function spreadOf(sentHash: string): string {
  return `(('x' || encode(substring(${sentHash} FROM 1 FOR 4), 'hex'))::bit(32)::bigint / 4294967296.0)`;
}

/** Columns of an answer that its expiry depends on, as SQL. */
export interface AnswerColumns {
  readonly answeredAt: string;
  readonly outcome: string;
  readonly sentHash: string;
  /** Condition. */
  readonly isFirst: string;
}

/**
 * Expiry of an answer as SQL; null for never. First answers expire up to a fifth of the refresh age early, so that one
 * big night doesn't come back as one big night.
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
