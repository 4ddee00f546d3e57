import { type RawBuilder, sql } from "kysely";
import { quoteLiteral } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { ErasedSql } from "../erasure/subjects.ts";
import type { MappedColumn } from "../inputs/input.ts";
import type { OpenedInput } from "../inputs/read.ts";
import { NO_INLINE, fieldsTaken, listFields, sentColumns } from "../inputs/columns.ts";
import type { InputShard, LookupSpec } from "./lookup.ts";

/** Part of the first age of an answer by which it may expire early, so that records sent in one run don't all expire in one. */
const SPREAD = 0.2;

/** Settings of a job that decide when an answer expires. */
export type Freshness = Pick<LookupSpec, "type" | "refreshAfterMs" | "refreshUnmatchedAfterMs"> & {
  /** Number of the job's last resend: answers of earlier calls aren't fresh. Null for none. */
  readonly resendBelow: number | null;
};

const NEVER = "'infinity'::timestamptz";

/** SQL time at which an answer `a` expires; infinity for never. The first answer of a content expires early by a part of its hash. */
export function expiresAt({ type, refreshAfterMs, refreshUnmatchedAfterMs }: Freshness): RawBuilder<unknown> {
  const hash = type === "validate_emails" ? "sha256(a.content)" : "a.content";
  const spread = `(('x' || encode(substring(${hash} FROM 1 FOR 4), 'hex'))::bit(32)::bigint / 4294967296.0)`;
  const after = (ageMs: number | null) =>
    ageMs === null
      ? NEVER
      : `a.answered_at + ${ageMs} * CASE WHEN a.is_first THEN 1 - ${SPREAD} * ${spread} ELSE 1 END
        * interval '1 millisecond'`;
  return sql.raw(
    `CASE a.outcome WHEN 'rejected' THEN ${NEVER} WHEN 'matched' THEN ${after(refreshAfterMs)}
      WHEN 'unmatched' THEN ${after(refreshUnmatchedAfterMs)} END`,
  );
}

/** SQL condition: an answer `a` exists and is fresh. A rejected content stays so until its reject is retried. */
export function isFresh(job: Freshness): RawBuilder<unknown> {
  const isSinceResend = job.resendBelow === null ? "true" : `a.call_number >= ${job.resendBelow}`;
  return sql`coalesce(a.outcome = 'rejected' OR (${sql.raw(isSinceResend)} AND ${expiresAt(job)} > now()), false)`;
}

/** SQL condition that an index can check: only such answers `a` may have expired. Null if none ever expires. */
export function mayBeExpired({
  refreshAfterMs,
  refreshUnmatchedAfterMs,
}: Freshness): RawBuilder<unknown> | null {
  const ages = [refreshAfterMs, refreshUnmatchedAfterMs].filter((age) => age !== null);
  if (ages.length === 0) return null;
  return sql.raw(`a.answered_at <= now() - ${Math.min(...ages) * (1 - SPREAD)} * interval '1 millisecond'`);
}

/** A mapped value: `name` is an SQL expression of a text, or of an array of texts without nulls. */
type Value = Pick<MappedColumn, "field" | "name" | "isArray">;

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
    .map(({ field, name, isArray }) =>
      isArray
        ? `coalesce((SELECT string_agg(${piece(field, "e")}, '' ORDER BY o) FROM unnest(${name}) WITH ORDINALITY AS u(e, o)), '')`
        : `coalesce(${piece(field, name)}, '')`,
    );
  return `sha256(convert_to(${pieces.length === 0 ? "''" : pieces.join(" || ")}, 'UTF8'))`;
}

/** Record as JSON text with the interface's field names; omits empty fields. Twice as fast as `json_strip_nulls`. */
function recordJson(values: readonly Value[]): string {
  const fields = [...new Set(values.map((v) => v.field))].toSorted();
  const entries = fields.map((field) => {
    const own = values.filter((v) => v.field === field);
    if (!listFields.has(field)) return `'"${field}":' || to_json(${own[0]?.name ?? "NULL"})::text`;
    const texts = own.filter((v) => !v.isArray).map((v) => `to_json(${v.name})`);
    const arrays = own
      .filter((v) => v.isArray)
      .map(
        (v) =>
          `(SELECT string_agg(to_json(e)::text, ',' ORDER BY o) FROM unnest(${v.name}) WITH ORDINALITY AS u(e, o))`,
      );
    return `'"${field}":[' || nullif(concat_ws(',', ${[...texts, ...arrays].join(", ")}), '') || ']'`;
  });
  return `'{' || concat_ws(',', ${entries.join(", ")}) || '}'`;
}

function hasAnyOf(values: readonly Value[], fields?: readonly string[]): string {
  const own = fields ? values.filter((v) => fields.includes(v.field)) : values;
  if (own.length === 0) return "false";
  return `(${own.map((v) => (v.isArray ? `cardinality(${v.name}) > 0` : `${v.name} IS NOT NULL`)).join(" OR ")})`;
}

/** SQL condition: usable for /v1/resolve (section 4.7), with a name and at least one address or phone. */
function isResolvable(values: readonly Value[]): string {
  const first = hasAnyOf(values, ["first_name"]);
  const last = hasAnyOf(values, ["last_name"]);
  const full = hasAnyOf(values, ["full_name"]);
  return `(((${first} AND ${last}) OR ${full}) AND ${hasAnyOf(values, ["emails", "phones"])})`;
}

/** SQL query of contents (hex), as `content`. */
export function contentList(contents: readonly string[]): RawBuilder<unknown> {
  return sql`SELECT decode(c, 'hex') AS content FROM unnest(${contents}::text[]) AS u(c)`;
}

/** SQL list of contents (hex), after an equals sign: Postgres finds them in one pass of an index, in a fraction of the time of a join. */
export function anyContent(contents: readonly string[]): RawBuilder<unknown> {
  return sql`ANY(${contents.map((content) => `\\x${content}`)}::bytea[])`;
}

/** Postgres can't index longer keys and addresses. */
export const MAX_KEY_BYTES = 2000;

/** Facts for the queries of a reading. */
export interface RowContext {
  readonly session: Session;
  readonly spec: LookupSpec;
  readonly freshness: Freshness;
  /** Kind under which the job's rows were answered before its parameters or mapping changed; null if nothing changed. */
  readonly formerKind: string | null;
  /** Conditions for identifiers of erased people; null if no one was erased. */
  readonly erased: ErasedSql | null;
  readonly opened: OpenedInput;
  readonly hasRank: boolean;
}

/** Leading characters of a key that determine its shard. Rejects of longer keys keep only these. */
export const KEPT_KEY_CHARACTERS = 500;

/** SQL condition: a key belongs to the shard. Rows without a key belong to one shard. */
export function ownsKey(shard: InputShard | null, key: string): string {
  if (shard === null) return "true";
  const text = `coalesce(left(${key}, ${KEPT_KEY_CHARACTERS}), '') COLLATE "C"`;
  return `mod(hashtextextended(${text}, 0) & 9223372036854775807, ${shard.count}) = ${shard.index}`;
}

const IS_TOO_LONG = `octet_length(source_key) > ${MAX_KEY_BYTES}`;

/** SQL text of the `lookup_row`s of a job; conditions on alias `r`. */
export function isRowOf({ job, source, shard }: LookupSpec): string {
  return `r.job = ${quoteLiteral(job)} AND r.source = ${quoteLiteral(source)} AND ${ownsKey(shard, "r.source_key")}`;
}

/**
 * Compares the fingerprints of all input rows with the stored ones: a group for each key to read (again), and one without a key for
 * the quiet rows; `rows` counts those in the input. The full join finds rows that left the input. A fenced subquery with one column to group by keeps the planner
 * from estimating as many groups as rows, so that it groups in parallel.
 */
export function comparison(
  session: Session,
  spec: LookupSpec,
  keys: Pick<OpenedInput, "rawRows">,
): RawBuilder<unknown> {
  const owns = ownsKey(spec.shard, "source_key");
  return sql`SELECT source_key, count(is_row) AS rows FROM (
      SELECT CASE WHEN i.fingerprint = r.fingerprint THEN NULL ELSE coalesce(i.source_key, r.source_key, '') END AS source_key, i.is_row
      FROM (SELECT source_key, fingerprint, true AS is_row FROM (${sql.raw(keys.rawRows)}) AS input_key WHERE ${sql.raw(owns)}) AS i
      FULL JOIN (SELECT source_key, fingerprint, missing_since FROM ${session.table("lookup_row")} AS r WHERE ${sql.raw(isRowOf(spec))}) AS r
        ON r.source_key = i.source_key
      WHERE i.is_row OR r.missing_since IS NULL ${sql.raw(NO_INLINE)}) AS compared
    GROUP BY source_key`;
}

/** Parts that the resolve job of `pid_from` sends. */
function resolvedParts({ spec, opened }: RowContext): readonly MappedColumn[] {
  return spec.pidFrom === null ? [] : opened.parts.filter((part) => fieldsTaken.resolve.includes(part.field));
}

/**
 * CTEs `raw_row`, and `input`: the shard's rows with their values as they are sent, and duplicates of a key numbered. Fenced,
 * because inlined expressions would be evaluated several times.
 */
function inputCtes(context: RowContext): RawBuilder<unknown> {
  const { parts, keyIsUnique, rawRows } = context.opened;
  // A job that sends PIDs must use the copy that was resolved.
  const order = [resolvedParts(context), parts]
    .map((some) => (some.length === 0 ? "''" : `ROW(${some.map((part) => part.name).join(", ")})::text`))
    .join(", ");
  const copy = keyIsUnique ? "1" : `row_number() OVER (PARTITION BY source_key ORDER BY ${order})`;
  const isShared = keyIsUnique ? "false" : "count(*) OVER (PARTITION BY source_key) > 1";
  const { columns, from } = sentColumns(parts, context.spec.input);
  return sql`raw_row AS (${sql.raw(rawRows)}),
    input AS (
      SELECT source_key, fingerprint, ${sql.raw([...columns, `${copy} AS copy`, `${isShared} AS is_shared`].join(", "))},
        ${sql.raw(context.hasRank ? "rank" : "NULL::bigint AS rank")}
      FROM ${sql.raw(from)} WHERE ${sql.raw(ownsKey(context.spec.shard, "source_key"))} ${sql.raw(NO_INLINE)})`;
}

/** Values without invalid addresses (joined as `bad_…`). */
function validValues({ opened: { parts }, spec }: RowContext): readonly Value[] {
  if (!spec.dropsInvalidEmails) return parts;
  return parts.map((value) => {
    if (value.field !== "emails") return value;
    const { name, isArray } = value;
    const valid = isArray ? `sent_${name}` : `CASE WHEN bad_${name}.email_address IS NULL THEN ${name} END`;
    return { ...value, name: valid };
  });
}

function invalidEmailJoins({ session, spec, opened }: RowContext): RawBuilder<unknown> {
  if (!spec.dropsInvalidEmails) return sql.raw("");
  const validation = session.table("email_validation");
  const joins = opened.parts
    .filter((part) => part.field === "emails")
    .map((part) =>
      part.isArray
        ? sql`CROSS JOIN LATERAL (SELECT ARRAY(
            SELECT e FROM unnest(${sql.raw(part.name)}) WITH ORDINALITY AS u(e, o)
            WHERE NOT EXISTS (SELECT FROM ${validation} AS v WHERE v.email_address = e AND v.email_validation_status = 'invalid')
            ORDER BY o) AS ${sql.raw(`sent_${part.name}`)}) AS ${sql.raw(`kept_${part.name}`)}`
        : sql`LEFT JOIN ${validation} AS ${sql.raw(`bad_${part.name}`)}
            ON ${sql.raw(`bad_${part.name}`)}.email_address = ${sql.raw(part.name)}
           AND ${sql.raw(`bad_${part.name}`)}.email_validation_status = 'invalid'`,
    );
  return sql.join(joins, sql.raw("\n"));
}

/** PID of each row, and whether it waits: the resolve job hasn't answered its present content. */
function pidColumns(context: RowContext): string {
  if (context.spec.pidFrom === null) return "NULL::text AS pid, false AS is_waiting";
  const resolved = contentHash(resolvedParts(context));
  return `CASE WHEN ra.outcome = 'matched' THEN ra.service_pid END AS pid,
    ra.content IS NULL OR ra.content <> ${resolved} AS is_waiting`;
}

function pidJoins({ session, spec: { pidFrom, source } }: RowContext): RawBuilder<unknown> {
  if (pidFrom === null) return sql.raw("");
  return sql`LEFT JOIN ${session.table("lookup_row")} AS rr
      ON rr.job = ${pidFrom} AND rr.source = ${source} AND rr.source_key = input.source_key AND rr.missing_since IS NULL
    LEFT JOIN ${session.table("lookup_answer")} AS ra ON ra.content = rr.content
      AND ra.kind = (SELECT kind FROM ${session.table("lookup_job")} WHERE job = ${pidFrom} AND source = ${source})`;
}

/** Condition: the row or its record names an erased person. */
function namesErased({ erased, spec, opened }: RowContext, content: string): RawBuilder<unknown> {
  if (!erased) return sql.raw("false");
  const tests = [
    erased.sourceKey(spec.source, "source_key"),
    erased.pid("pid"),
    erased.content(content),
    ...opened.parts.filter((part) => part.field === "service_pid").map((part) => erased.pid(part.name)),
    ...opened.parts
      .filter((part) => part.field === "emails")
      .map((part) =>
        part.isArray
          ? sql`EXISTS (SELECT FROM unnest(${sql.raw(part.name)}) AS u(e) WHERE ${erased.email("e")})`
          : erased.email(part.name),
      ),
  ];
  return sql`(${sql.join(tests, sql.raw(" OR "))})`;
}

/**
 * The rows of a resolve or enrich job with what they would send: source_key, rank, fingerprint, is_shared, is_known (the job has
 * read the key before), is_stored (with this fingerprint, and not missing), was_missing (from the input since), prior_content (stored then), content, sent_pid, record, prior (outcome of the content's answer), and class:
 * `unchanged`, `reused` (another row's answer), `waiting`, `suppressed`, `reject:CODE`, or the reason why the content is due.
 */
export function seenRows(context: RowContext): RawBuilder<unknown> {
  const { session, spec, freshness, formerKind } = context;
  const sent = validValues(context);
  const withPid: readonly Value[] =
    spec.pidFrom === null ? sent : [...sent, { field: "service_pid", name: "pid", isArray: false }];
  const answer = session.table("lookup_answer");
  const isSame = "s.prior_content = s.content";
  const rejected = (code: string) =>
    sql`CASE WHEN ${sql.raw(isSame)} AND a.outcome = 'rejected' THEN 'unchanged' ELSE ${sql.raw(`'reject:${code}'`)} END`;
  return sql`WITH ${inputCtes(context)},
    joined AS (
      SELECT input.*, r.source_key IS NOT NULL AS is_known, r.content AS prior_content, r.fingerprint IS NULL AS is_unread, r.missing_since IS NOT NULL AS was_missing,
        coalesce(r.fingerprint = input.fingerprint AND r.missing_since IS NULL, false) AS is_stored,
        ${sql.raw(pidColumns(context))}
      FROM input LEFT JOIN ${session.table("lookup_row")} AS r
        ON r.job = ${spec.job} AND r.source = ${spec.source} AND r.source_key = input.source_key
      ${pidJoins(context)} ${sql.raw(NO_INLINE)}),
    sent AS (
      SELECT source_key, rank, fingerprint, copy, is_shared, is_known, prior_content, is_unread, is_stored, was_missing, is_waiting, pid,
        ${sql.raw(contentHash(withPid))} AS content, ${sql.raw(hasAnyOf(withPid))} AS is_usable,
        ${sql.raw(spec.type === "resolve" ? isResolvable(withPid) : "true")} AS is_resolvable,
        ${namesErased(context, contentHash(withPid))} AS is_erased, ${sql.raw(recordJson(withPid))} AS record
      FROM joined ${invalidEmailJoins(context)} ${sql.raw(NO_INLINE)})
    SELECT s.source_key, s.rank, s.fingerprint, s.is_shared, s.is_known, s.is_stored, s.was_missing, s.prior_content, s.content, s.pid AS sent_pid, s.record,
      a.outcome AS prior,
      CASE
        WHEN s.is_erased THEN 'suppressed'
        WHEN s.source_key IS NULL THEN 'reject:missing_key'
        WHEN ${sql.raw(IS_TOO_LONG.replace("source_key", "s.source_key"))} THEN 'reject:key_too_long'
        WHEN s.copy > 1 THEN 'reject:duplicate_key'
        WHEN s.is_waiting THEN 'waiting'
        WHEN NOT s.is_usable THEN ${rejected("no_identifier")}
        WHEN NOT s.is_resolvable THEN ${rejected("not_resolvable")}
        WHEN ${isFresh(freshness)} THEN CASE WHEN ${sql.raw(isSame)} THEN 'unchanged' ELSE 'reused' END
        ${
          formerKind === null
            ? sql.raw("")
            : sql`WHEN EXISTS (SELECT FROM ${answer} AS f WHERE f.kind = ${formerKind} AND f.content = s.prior_content
                AND f.outcome <> 'rejected') THEN 'parameters_changed'`
        }
        WHEN a.content IS NOT NULL AND a.call_number < ${freshness.resendBelow}::bigint THEN 'resend'
        WHEN a.content IS NOT NULL THEN 'expired'
        WHEN s.prior_content IS NULL THEN 'never_answered'
        WHEN ${sql.raw(isSame)} THEN CASE WHEN s.is_unread AND NOT s.is_shared THEN 'retried' ELSE 'never_answered' END
        WHEN s.is_unread AND ${sql.raw(String(spec.pidFrom !== null))} THEN 'pid_changed'
        ELSE 'content_changed'
      END AS class
    FROM sent AS s LEFT JOIN ${answer} AS a ON a.kind = ${spec.kind} AND a.content = s.content`;
}

/** The rows of a validate_emails job: source_key, copy, rank, fingerprint, is_shared, is_known, is_erased (by its key), addresses. */
export function seenAddressRows(context: RowContext): RawBuilder<unknown> {
  const { session, spec, erased, opened } = context;
  const texts = opened.parts.filter((part) => !part.isArray).map((part) => part.name);
  const arrays = opened.parts.filter((part) => part.isArray).map((part) => part.name);
  const all = [`array_remove(ARRAY[${texts.join(", ")}]::text[], NULL)`, ...arrays].join(" || ");
  const isErased = erased ? erased.sourceKey(spec.source, "input.source_key") : sql.raw("false");
  return sql`WITH ${inputCtes(context)}
    SELECT input.source_key, copy, rank, input.fingerprint, is_shared, r.source_key IS NOT NULL AS is_known, ${isErased} AS is_erased,
      ${sql.raw(all)} AS addresses
    FROM input LEFT JOIN ${session.table("lookup_row")} AS r
      ON r.job = ${spec.job} AND r.source = ${spec.source} AND r.source_key = input.source_key`;
}

/** Distinct addresses of `pg_temp.seen_address` with their class, like {@link seenRows}; `rows` counts how often each occurs. */
export function seenAddresses({ session, spec, freshness }: RowContext): RawBuilder<unknown> {
  return sql`SELECT d.content, d.address, d.rows, d.rank, to_json(d.address)::text AS record, NULL::text AS sent_pid, a.outcome AS prior,
      CASE
        WHEN octet_length(d.address) > ${MAX_KEY_BYTES} THEN 'reject:key_too_long'
        WHEN ${isFresh(freshness)} THEN 'unchanged'
        WHEN a.content IS NULL THEN 'never_answered'
        WHEN a.call_number < ${freshness.resendBelow}::bigint THEN 'resend'
        ELSE 'expired'
      END AS class
    FROM (SELECT email_address AS address, convert_to(email_address, 'UTF8') AS content, count(*) AS rows, min(rank) AS rank
      FROM pg_temp.seen_address WHERE email_address IS NOT NULL AND NOT is_erased GROUP BY email_address) AS d
    LEFT JOIN ${session.table("lookup_answer")} AS a ON a.kind = ${spec.kind} AND a.content = d.content`;
}
