import { type RawBuilder, sql } from "kysely";
import { FENCE } from "../inputs/create-from-input.ts";
import { fieldsTaken } from "../inputs/input-fields.ts";
import { contentHash, hasAnyOf, isResolvable, recordJson, type Value, valuesOf } from "./content.ts";
import type { Part } from "../inputs/input-source.ts";
import { raw } from "../inputs/input.ts";
import { sentValues } from "../inputs/sent-values.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import { ownsKey, ownsRow } from "./shard-rows.ts";
import type { SuppressedSql } from "../erasure/suppressed-sql.ts";
import type { LookupSpec } from "./lookup-spec.ts";

/** Some warehouses can't index longer keys and addresses. */
const MAX_KEY_BYTES = 2000;

/** Inputs of a classification. */
export interface ClassifyContext {
  readonly spec: LookupSpec;
  readonly names: SchemaNames;
  readonly parts: readonly Part[];
  /** Columns that are needed only to assign rows to shards. */
  readonly otherParts: readonly Part[];
  /** FROM item that yields the raw rows (`rawSelect`). */
  readonly rawRows: RawBuilder<unknown>;
  readonly hasRank: boolean;
  /** Answers of calls with a lower number are due again (`--resend`); null for none. */
  readonly resendBefore: number | null;
  /** No two rows can have the same key. */
  readonly keyIsUnique: boolean;
  /** True if the raw rows have `fingerprint`. */
  readonly hasFingerprint: boolean;
  /** True to build the record of every row, not only of due ones. */
  readonly withRecords: boolean;
  /** Identifiers of erased people; null if no one was erased. */
  readonly suppressed: SuppressedSql | null;
}

/** Values without invalid addresses (joined as `bad_…`). */
function validValues(context: ClassifyContext): readonly Value[] {
  const { parts, spec } = context;
  if (!spec.dropsInvalidEmails) return valuesOf(parts);
  return parts.map((part) => {
    if (part.field !== "emails") return { field: part.field, expression: part.name, isArray: part.isArray };
    const expression = part.isArray
      ? `sent_${part.name}`
      : `CASE WHEN bad_${part.name}.email_address IS NULL THEN ${part.name} END`;
    return { field: part.field, expression, isArray: part.isArray };
  });
}

function invalidEmailJoins(context: ClassifyContext): RawBuilder<unknown> {
  if (!context.spec.dropsInvalidEmails) return raw("");
  const validation = tableId(context.names, "email_validation");
  const joins = context.parts
    .filter((part) => part.field === "emails")
    .map((part) =>
      part.isArray
        ? sql`CROSS JOIN LATERAL (SELECT ARRAY(
            SELECT e FROM unnest(${raw(part.name)}) WITH ORDINALITY AS u(e, o)
            WHERE NOT EXISTS (SELECT FROM ${validation} AS v WHERE v.email_address = e AND v.email_validation_status = 'invalid')
            ORDER BY o) AS ${raw(`sent_${part.name}`)}) AS ${raw(`kept_${part.name}`)}`
        : sql`LEFT JOIN ${validation} AS ${raw(`bad_${part.name}`)}
            ON ${raw(`bad_${part.name}`)}.email_address = ${raw(part.name)}
           AND ${raw(`bad_${part.name}`)}.email_validation_status = 'invalid'`,
    );
  return sql.join(joins, raw("\n"));
}

/** Parts that the resolve job of `pid_from` sends. */
function resolvedParts({ spec, parts }: ClassifyContext): readonly Part[] {
  return spec.pidFrom === null ? [] : parts.filter((part) => fieldsTaken.resolve.includes(part.field));
}

function rowText(parts: readonly Part[]): string {
  return parts.length === 0 ? "''" : `ROW(${parts.map((part) => part.name).join(", ")})::text`;
}

/**
 * CTEs `raw_row` and `whole_input`: values as they are sent, duplicates of a key numbered. Fenced, because
 * inlined expressions would be evaluated several times.
 */
function inputCtes(context: ClassifyContext): RawBuilder<unknown> {
  const { parts, otherParts } = context;
  // A job that sends PIDs must use the copy that was resolved, and all shards must choose the same copy.
  const order = [resolvedParts(context), parts, otherParts].map(rowText).join(", ");
  const copy = context.keyIsUnique ? "1" : `row_number() OVER (PARTITION BY source_key ORDER BY ${order})`;
  const isShared = context.keyIsUnique ? "false" : "count(*) OVER (PARTITION BY source_key) > 1";
  const { columns, from } = sentValues([...parts, ...otherParts], context.spec.input);
  return sql`raw_row AS (${context.rawRows}),
    whole_input AS (
      SELECT source_key, ${raw([...columns, `${copy} AS copy`, `${isShared} AS is_shared`].join(", "))},
        ${raw(context.hasFingerprint ? "fingerprint" : "NULL::bytea AS fingerprint")},
        ${raw(context.hasRank ? "rank" : "NULL::bigint AS rank")}
      FROM ${raw(`${from} ${FENCE}`)})`;
}

const IS_TOO_LONG = `octet_length(source_key) > ${MAX_KEY_BYTES}`;

/**
 * Fingerprint to store with a row's state: only one of the content of its hash, and of a key's only row. Empty if the content is
 * not that of the state.
 */
const NEW_PRINT = "CASE WHEN is_shared THEN NULL WHEN prior_hash <> seen_hash THEN '' ELSE fingerprint END";

/** Columns of classified rows besides their class. */
const CLASSIFIED = `source_key, prior, input_hash, sent_hash, pid, is_unresolved, rank, record, is_current, fingerprint,
      prior_print, new_print`;

/**
 * All input rows of a resolve or enrich job with their `class`: `unchanged`, `waiting`, `suppressed`, `reject:CODE`, or the
 * reason they are due. Columns: source_key, class, prior, changed_parameters, is_current (the state is that of the present
 * content), input_hash, sent_hash, pid, is_unresolved (rejected by the job of `pid_from`), rank, record, fingerprint (null if other rows have the
 * key), prior_print and new_print (stored with the state, and to be stored).
 */
export function classifiedRows(context: ClassifyContext): RawBuilder<unknown> {
  const { spec } = context;
  const sent = validValues(context);
  const withPid: readonly Value[] =
    spec.pidFrom === null ? sent : [...sent, { field: "service_pid", expression: "pid", isArray: false }];
  const isSentAsIs = spec.pidFrom === null && !spec.dropsInvalidEmails;
  const usable = hasAnyOf(withPid);
  const resolvable = spec.type === "resolve" ? isResolvable(withPid) : "true";
  const hasBadKey = `source_key IS NULL OR ${IS_TOO_LONG} OR copy > 1`;
  const isOwn = ownsRow(spec.shard, [...context.parts, ...context.otherParts], hasBadKey);
  return sql`WITH ${inputCtes(context)},
    input AS (SELECT * FROM whole_input WHERE ${raw(isOwn)}),
    joined AS (
      SELECT input.*, ${raw(contentHash(valuesOf(context.parts)))} AS seen_hash,
        s.source_key IS NOT NULL AS is_known, s.outcome AS prior, s.input_hash AS prior_hash,
        s.has_other_parameters, s.sent_service_pid AS prior_pid, s.due_at, s.call_number,
        s.fingerprint AS prior_print,
        ${pidColumns(context)}
      FROM input
      LEFT JOIN (
        -- The coalesce has it computed before the join, so that the hash isn't part of the joined rows.
        SELECT *, coalesce(parameters_hash <> ${spec.parametersHash}, true) AS has_other_parameters
        FROM ${tableId(context.names, "lookup_state")}) AS s
        ON s.job = ${spec.job} AND s.source = ${spec.input.name} AND s.source_key = input.source_key
      ${pidJoins(context)} ${raw(FENCE)}),
    judged AS (
      SELECT joined.*,
        CASE
          WHEN NOT is_known THEN 'never_answered'
          WHEN prior_hash <> seen_hash THEN 'content_changed'
          WHEN prior = 'rejected' AND due_at <= now() THEN 'retried'
          WHEN has_other_parameters THEN 'parameters_changed'
          WHEN prior_pid IS DISTINCT FROM pid THEN 'pid_changed'
          WHEN due_at <= now() THEN 'expired'
          WHEN coalesce(call_number, 0) < ${context.resendBefore}::bigint THEN 'resend'
        END AS reason
      FROM joined),
    sent AS (
      SELECT judged.*, seen_hash AS input_hash,
        ${raw(isSentAsIs ? "seen_hash" : contentHash(withPid))} AS sent_hash,
        ${raw(usable)} AS is_usable, ${raw(resolvable)} AS is_resolvable,
        ${raw(NEW_PRINT)} AS new_print,
        CASE WHEN reason IS NOT NULL OR ${raw(String(context.withRecords))} THEN ${raw(recordJson(withPid))} END AS record
      FROM judged ${invalidEmailJoins(context)})
    ${withoutSuppressed(
      context,
      sql`SELECT source_key, prior, input_hash, sent_hash, pid, is_unresolved, rank, record,
      (is_known AND prior <> 'rejected' AND has_other_parameters) AS changed_parameters,
      (prior_hash = seen_hash AND copy = 1) AS is_current,
      CASE WHEN NOT is_shared THEN fingerprint END AS fingerprint,
      prior_print, CASE WHEN copy > 1 THEN prior_print ELSE new_print END AS new_print,
      ${raw(context.suppressed ? context.parts.map((part) => `${part.name},`).join(" ") : "")}
      CASE
        WHEN source_key IS NULL THEN 'reject:missing_key'
        WHEN ${raw(IS_TOO_LONG)} THEN 'reject:key_too_long'
        WHEN copy > 1 THEN 'reject:duplicate_key'
        WHEN prior = 'rejected' AND prior_hash = seen_hash AND prior_pid IS NOT DISTINCT FROM pid
          AND reason IS DISTINCT FROM 'retried' THEN 'unchanged'
        WHEN is_waiting THEN 'waiting'
        WHEN reason IS NULL THEN 'unchanged'
        WHEN NOT is_usable THEN 'reject:no_identifier'
        WHEN NOT is_resolvable THEN 'reject:not_resolvable'
        ELSE reason
      END AS class
    FROM sent`,
    )}`;
}

/** Sets the class `suppressed` on rows that name an erased person, except unchanged rows and rows without a key. */
function withoutSuppressed(context: ClassifyContext, classed: RawBuilder<unknown>): RawBuilder<unknown> {
  const { suppressed, spec } = context;
  if (!suppressed) return classed;
  const tests = [
    suppressed.sourceKey(spec.input.name, "source_key"),
    suppressed.pid("pid"),
    ...context.parts.filter((part) => part.field === "service_pid").map((part) => suppressed.pid(part.name)),
    ...context.parts
      .filter((part) => part.field === "emails")
      .map((part) =>
        part.isArray
          ? sql`EXISTS (SELECT FROM unnest(${raw(part.name)}) AS u(e) WHERE ${suppressed.email("e")})`
          : suppressed.email(part.name),
      ),
  ];
  return sql`SELECT ${raw(CLASSIFIED)},
      changed_parameters AND class <> 'suppressed' AS changed_parameters, class
    FROM (
      SELECT ${raw(CLASSIFIED)}, changed_parameters,
        CASE WHEN class IN ('unchanged', 'reject:missing_key') THEN class
          WHEN ${sql.join(tests, raw(" OR "))} THEN 'suppressed' ELSE class END AS class
      FROM (${classed} ${raw(FENCE)}) AS classed ${raw(FENCE)}) AS judged`;
}

function pidColumns(context: ClassifyContext): RawBuilder<unknown> {
  if (context.spec.pidFrom === null)
    return raw("NULL::text AS pid, false AS is_waiting, false AS is_unresolved");
  const hash = contentHash(valuesOf(resolvedParts(context)));
  // A row that changed since it was resolved waits. A row rejected since then goes without a PID: the earlier PID may
  // belong to a different person.
  return raw(`CASE WHEN ps.outcome = 'matched' AND r.is_match THEN r.service_pid END AS pid,
    (ps.source_key IS NULL OR ps.input_hash <> ${hash}) AS is_waiting,
    coalesce(ps.outcome = 'rejected', false) AS is_unresolved`);
}

function pidJoins(context: ClassifyContext): RawBuilder<unknown> {
  const { pidFrom, input } = context.spec;
  if (pidFrom === null) return raw("");
  return sql`LEFT JOIN ${tableId(context.names, "lookup_state")} AS ps
      ON ps.job = ${pidFrom} AND ps.source = ${input.name} AND ps.source_key = input.source_key
    LEFT JOIN ${tableId(context.names, "resolution")} AS r
      ON r.job = ${pidFrom} AND r.source = ${input.name} AND r.source_key = input.source_key`;
}

/**
 * Input rows of a validate_emails job, of all shards, with one row per address: source_key, copy, rank, position,
 * email_address, and is_suppressed if the address or its row belongs to an erased person.
 */
export function inputAddresses(context: ClassifyContext): RawBuilder<unknown> {
  const texts = context.parts.filter((p) => !p.isArray).map((p) => p.name);
  const arrays = context.parts.filter((p) => p.isArray).map((p) => p.name);
  const all = [`array_remove(ARRAY[${texts.join(", ")}]::text[], NULL)`, ...arrays].join(" || ");
  const { suppressed, spec } = context;
  const ofRow = suppressed ? suppressed.sourceKey(spec.input.name, "source_key") : raw("false");
  const ofAddress = suppressed ? suppressed.email("email_address") : raw("false");
  return sql`WITH ${inputCtes(context)},
    marked AS (SELECT *, ${ofRow} AS is_erased FROM whole_input ${raw(FENCE)})
    SELECT source_key, copy, rank, (o - 1)::int AS position, email_address, is_erased OR ${ofAddress} AS is_suppressed
    FROM marked LEFT JOIN LATERAL unnest(${raw(all)}) WITH ORDINALITY AS u(email_address, o) ON true`;
}

/**
 * Distinct addresses of a validate_emails job with `class` (see {@link classifiedRows}) and number of occurrences.
 * Reads the temporary table `input_address`.
 */
export function classifiedAddresses(context: ClassifyContext): RawBuilder<unknown> {
  const { spec } = context;
  return sql`WITH address AS (
      SELECT email_address, count(*) AS occurrences, min(rank) AS rank FROM pg_temp.input_address
      WHERE email_address IS NOT NULL AND NOT is_suppressed AND ${raw(ownsKey(spec.shard, "email_address"))}
      GROUP BY email_address),
    hashed AS (
      SELECT email_address, occurrences, rank, sha256(convert_to(email_address, 'UTF8')) AS input_hash FROM address)
    SELECT email_address AS source_key, s.outcome AS prior, hashed.input_hash, hashed.input_hash AS sent_hash,
      NULL::text AS pid, false AS is_unresolved, rank, to_json(email_address)::text AS record, occurrences,
      NULL::bytea AS fingerprint, NULL::bytea AS prior_print, NULL::bytea AS new_print, false AS is_current,
      (s.outcome <> 'rejected' AND s.parameters_hash <> ${spec.parametersHash}) AS changed_parameters,
      CASE
        WHEN octet_length(email_address) > ${MAX_KEY_BYTES} THEN 'reject:key_too_long'
        WHEN s.outcome = 'rejected' AND s.due_at <= now() THEN 'retried'
        WHEN s.outcome = 'rejected' THEN 'unchanged'
        WHEN s.source_key IS NULL THEN 'never_answered'
        WHEN s.parameters_hash <> ${spec.parametersHash} THEN 'parameters_changed'
        WHEN s.due_at <= now() THEN 'expired'
        WHEN coalesce(s.call_number, 0) < ${context.resendBefore}::bigint THEN 'resend'
        ELSE 'unchanged'
      END AS class
    FROM hashed LEFT JOIN ${tableId(context.names, "lookup_state")} AS s
      ON s.job = ${spec.job} AND s.source = ${spec.input.name} AND s.source_key = hashed.email_address
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, false, NULL, NULL, count(*), NULL, NULL, NULL, false, false, 'suppressed' FROM pg_temp.input_address
    WHERE email_address IS NOT NULL AND is_suppressed AND ${raw(ownsKey(spec.shard, "email_address"))} HAVING count(*) > 0`;
}
