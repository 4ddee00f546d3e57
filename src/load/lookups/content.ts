import { type RawBuilder, sql } from "kysely";
import { listFields } from "../inputs/input-fields.ts";
import type { Part } from "../inputs/input-source.ts";
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

/** Version of the hash rule, part of every fingerprint. Another rule makes every content a new one, which is paid for again. */
export const HASH_VERSION = 1;

/** One mapped value as an SQL expression: a text, or an array of texts without nulls. */
export interface Value {
  readonly field: string;
  readonly expression: string;
  readonly isArray: boolean;
}

/** Parts as values. */
export function valuesOf(parts: readonly Part[]): readonly Value[] {
  return parts.map((part) => ({ field: part.field, expression: part.name, isArray: part.isArray }));
}

function piece(field: string, expression: string): string {
  const mark = listFields.has(field) ? "+" : "=";
  return `'${field}${mark}' || octet_length(${expression}) || ':' || ${expression} || ';'`;
}

/**
 * SHA-256 over the values, each with its field name and byte length, so that different records never have the same
 * text. Skips nulls: mapping a column that is always empty changes no hash.
 */
export function contentHash(values: readonly Value[]): string {
  const pieces = values
    .toSorted((a, b) => (a.field < b.field ? -1 : a.field > b.field ? 1 : 0))
    .map(({ field, expression, isArray }) =>
      isArray
        ? `coalesce((SELECT string_agg(${piece(field, "e")}, '' ORDER BY o) FROM unnest(${expression}) WITH ORDINALITY AS u(e, o)), '')`
        : `coalesce(${piece(field, expression)}, '')`,
    );
  return `sha256(convert_to(${pieces.length === 0 ? "''" : pieces.join(" || ")}, 'UTF8'))`;
}

/** Record as JSON text with the interface's field names; omits empty fields. Twice as fast as `json_strip_nulls`. */
export function recordJson(values: readonly Value[]): string {
  const fields = [...new Set(values.map((v) => v.field))].toSorted();
  const entries = fields.map((field) => {
    const own = values.filter((v) => v.field === field);
    if (!listFields.has(field)) return `'"${field}":' || to_json(${own[0]?.expression ?? "NULL"})::text`;
    const texts = own.filter((v) => !v.isArray).map((v) => `to_json(${v.expression})`);
    const arrays = own
      .filter((v) => v.isArray)
      .map(
        (v) =>
          `(SELECT string_agg(to_json(e)::text, ',' ORDER BY o) FROM unnest(${v.expression}) WITH ORDINALITY AS u(e, o))`,
      );
    return `'"${field}":[' || nullif(concat_ws(',', ${[...texts, ...arrays].join(", ")}), '') || ']'`;
  });
  return `'{' || concat_ws(',', ${entries.join(", ")}) || '}'`;
}

/** SQL condition: at least one of the values is present. */
export function hasAnyOf(values: readonly Value[], fields?: readonly string[]): string {
  const own = fields ? values.filter((v) => fields.includes(v.field)) : values;
  if (own.length === 0) return "false";
  return `(${own.map((v) => (v.isArray ? `cardinality(${v.expression}) > 0` : `${v.expression} IS NOT NULL`)).join(" OR ")})`;
}

/** SQL condition: usable for /v1/resolve (section 4.7), with a name and at least one address or phone. */
export function isResolvable(values: readonly Value[]): string {
  const first = hasAnyOf(values, ["first_name"]);
  const last = hasAnyOf(values, ["last_name"]);
  const full = hasAnyOf(values, ["full_name"]);
  return `(((${first} AND ${last}) OR ${full}) AND ${hasAnyOf(values, ["emails", "phones"])})`;
}

/** SQL query of contents (hex), as `content`. */
export function contentList(contents: readonly string[]): RawBuilder<unknown> {
  return sql`SELECT decode(c, 'hex') AS content FROM unnest(${contents}::text[]) AS u(c)`;
}
