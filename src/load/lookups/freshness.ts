import { type RawBuilder, sql } from "kysely";
import type { LookupSpec } from "./lookup.ts";

/** Part of the first age of an answer by which it may expire early, so that records sent in one run don't all expire in one. */
const SPREAD = 0.2;

/** Settings of a job that decide when an answer expires. */
export type Freshness = Pick<LookupSpec, "type" | "refreshAfterMs" | "refreshUnmatchedAfterMs"> & {
  /** Number of the job's last resend: answers of earlier calls aren't fresh. Null for none. */
  readonly resendBelow: number | null;
};

/** SQL fraction (0 to 1) by which the first answer of a content expires early. */
function spreadOf({ type }: Freshness, content: string): string {
  const hash = type === "validate_emails" ? `sha256(${content})` : content;
  return `(('x' || encode(substring(${hash} FROM 1 FOR 4), 'hex'))::bit(32)::bigint / 4294967296.0)`;
}

const NEVER = "'infinity'::timestamptz";

/** SQL time at which an answer `a` expires; infinity for never. */
export function expiresAt(job: Freshness, a: string): RawBuilder<unknown> {
  const after = (ageMs: number | null) =>
    ageMs === null
      ? NEVER
      : `${a}.answered_at + ${ageMs} * CASE WHEN ${a}.is_first THEN 1 - ${SPREAD} * ${spreadOf(job, `${a}.content`)} ELSE 1 END
        * interval '1 millisecond'`;
  return sql.raw(
    `CASE ${a}.outcome WHEN 'rejected' THEN ${NEVER} WHEN 'matched' THEN ${after(job.refreshAfterMs)}
      WHEN 'unmatched' THEN ${after(job.refreshUnmatchedAfterMs)} END`,
  );
}

/** SQL condition: an answer `a` exists and is fresh. A rejected content stays so until its reject is retried. */
export function isFresh(job: Freshness, a: string): RawBuilder<unknown> {
  const isSinceResend = job.resendBelow === null ? "true" : `${a}.call_number >= ${job.resendBelow}`;
  return sql`coalesce(${sql.raw(a)}.outcome = 'rejected' OR (${sql.raw(isSinceResend)} AND ${expiresAt(job, a)} > now()), false)`;
}

/** SQL condition that an index can check: only such answers `a` may have expired. Null if none ever expires. */
export function mayBeExpired(
  { refreshAfterMs, refreshUnmatchedAfterMs }: Freshness,
  a: string,
): RawBuilder<unknown> | null {
  const ages = [refreshAfterMs, refreshUnmatchedAfterMs].filter((age) => age !== null);
  if (ages.length === 0) return null;
  return sql.raw(
    `${a}.answered_at <= now() - ${Math.min(...ages) * (1 - SPREAD)} * interval '1 millisecond'`,
  );
}
