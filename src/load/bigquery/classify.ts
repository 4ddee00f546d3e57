import { tableNamed } from "../../schemas/registry.ts";
import { fieldsTaken } from "../input-fields.ts";
import type { LookupSpec } from "../warehouse.ts";
import {
  allTexts,
  contentHash,
  contentText,
  hasAnyOf,
  isResolvable,
  recordJson,
  type Value,
  valuesOf,
} from "./content.ts";
import { columnType } from "./ddl.ts";
import type { Part } from "../input-source.ts";
import { type DatasetNames, quoteIdentifier, quoteLiteral, tableText } from "./names.ts";
import { ownsKey, ownsRow } from "./shard-rows.ts";
import type { SuppressedText } from "./suppression.ts";

/** Keys and addresses longer than this can't be a primary key in every warehouse. */
export const MAX_KEY_BYTES = 2000;

/** What classification reads beside the input: our tables, or empty stand-ins before the first migration. */
export interface ClassifyContext {
  readonly spec: LookupSpec;
  readonly names: DatasetNames;
  readonly parts: readonly Part[];
  /** Parts that only tell which shard a row is in. */
  readonly otherParts: readonly Part[];
  /** Query that yields the raw rows (`rawSelect`). */
  readonly rawRows: string;
  readonly isMigrated: boolean;
  readonly hasRank: boolean;
  /** Whether the raw rows tell by `is_recent` which can have changed since the checkpoint. */
  readonly hasRecent: boolean;
  /** The states of the job's rows, as a FROM item (see `changedStates`); null before the first migration. */
  readonly states: string | null;
  /** What erased people are known by; null while there are none. The script has declared the key. */
  readonly suppressed: SuppressedText | null;
}

/** One of our tables; before the first migration an empty relation with the same columns. */
function relation(context: ClassifyContext, name: string): string {
  const table = tableNamed(name);
  if (context.isMigrated) return tableText(context.names, table.room, name);
  const columns = table.columns.map(
    (c) => `CAST(NULL AS ${columnType(c.type)}) AS ${quoteIdentifier(c.name)}`,
  );
  return `(SELECT ${columns.join(", ")} FROM UNNEST(ARRAY<INT64>[]))`;
}

/** Values as they are sent: without addresses found invalid. */
function sentValues({ parts, spec }: ClassifyContext): readonly Value[] {
  if (!spec.dropsInvalidEmails) return valuesOf(parts);
  return parts.map((part) => ({
    field: part.field,
    expression: part.field === "emails" ? `sent_${part.name}` : part.name,
    isArray: part.isArray,
  }));
}

/** `sent_…` of the e-mail parts. One list of the row's invalid addresses, so that one join finds them. */
function sentEmails({ parts, spec }: ClassifyContext): string {
  if (!spec.dropsInvalidEmails) return "";
  return parts
    .filter((part) => part.field === "emails")
    .map((part) =>
      part.isArray
        ? `, ARRAY(SELECT e FROM UNNEST(${part.name}) AS e WITH OFFSET AS o WHERE e NOT IN UNNEST(IFNULL(bad, [])) ORDER BY o) AS sent_${part.name}`
        : `, IF(${part.name} IN UNNEST(IFNULL(bad, [])), NULL, ${part.name}) AS sent_${part.name}`,
    )
    .join("");
}

/** CTEs that give each row of `judged` its invalid addresses, `bad`. */
function withInvalidEmails(context: ClassifyContext): string {
  if (!context.spec.dropsInvalidEmails) return "SELECT * FROM judged";
  const emails = valuesOf(context.parts).filter(({ field }) => field === "emails");
  if (emails.length === 0) return "SELECT judged.*, CAST(NULL AS ARRAY<STRING>) AS bad FROM judged";
  return `SELECT judged.*, b.bad FROM judged LEFT JOIN (
      SELECT source_key, copy, ARRAY_AGG(DISTINCT e) AS bad
      FROM (SELECT source_key, copy, e FROM judged, UNNEST(${allTexts(emails)}) AS e WHERE reason IS NOT NULL) AS a
      JOIN ${relation(context, "email_validation")} AS v ON v.email_address = a.e
      WHERE v.email_validation_status = 'invalid' GROUP BY source_key, copy) AS b
      ON b.source_key = judged.source_key AND b.copy = judged.copy`;
}

/** The parts that the resolve job of `pid_from` sends. */
function resolvedParts({ spec, parts }: ClassifyContext): readonly Part[] {
  return spec.pidFrom === null ? [] : parts.filter((part) => fieldsTaken.resolve.includes(part.field));
}

/** CTEs `raw_row` and `whole_input`: mapped values, duplicates of a key numbered. */
function inputCtes(context: ClassifyContext): string {
  const { parts, otherParts } = context;
  // A job that sends PIDs along has to use the copy that was resolved; and all shards have to agree on one.
  const order = [resolvedParts(context), parts, otherParts]
    .map((some) => contentText(valuesOf(some)))
    .join(", ");
  const names = [...parts, ...otherParts].map((part) => part.name);
  return `raw_row AS (${context.rawRows}),
    whole_input AS (
      SELECT ${["source_key", ...names].join(", ")},
        ROW_NUMBER() OVER (PARTITION BY source_key ORDER BY ${order}) AS copy,
        ${context.hasRecent ? "is_recent" : "TRUE AS is_recent"},
        ${context.hasRank ? "rank" : "CAST(NULL AS INT64) AS rank"}
      FROM raw_row)`;
}

const IS_TOO_LONG = `BYTE_LENGTH(source_key) > ${MAX_KEY_BYTES}`;

/** The content hash of each row as far as it is looked at: rows that the cursor calls unchanged keep the stored one. */
function seenHash(context: ClassifyContext): string {
  const hash = contentHash(valuesOf(context.parts));
  return context.hasRecent ? `IF(s.input_hash IS NOT NULL AND NOT is_recent, s.input_hash, ${hash})` : hash;
}

/** The content hash of each row; of a row that is due it is always that of what will be sent. */
function inputHash(context: ClassifyContext): string {
  const hash = contentHash(valuesOf(context.parts));
  return context.hasRecent ? `IF(is_recent OR reason IS NULL, seen_hash, ${hash})` : "seen_hash";
}

/**
 * Every input row of a resolve or enrich job with its `class`: `unchanged`, `waiting`, `suppressed`, `reject:CODE`, or the
 * reason why it is due. Columns: source_key, prior, input_hash, sent_hash, pid, rank, record, occurrences, changed_parameters, class.
 */
export function classifiedRows(context: ClassifyContext): string {
  const { spec } = context;
  const sent = sentValues(context);
  const withPid: readonly Value[] =
    spec.pidFrom === null ? sent : [...sent, { field: "service_pid", expression: "pid", isArray: false }];
  const isSentAsIs = spec.pidFrom === null && !spec.dropsInvalidEmails;
  const usable = hasAnyOf(withPid);
  const resolvable = spec.type === "resolve" ? isResolvable(withPid) : "TRUE";
  const hasBadKey = `source_key IS NULL OR ${IS_TOO_LONG} OR copy > 1`;
  const isOwn = ownsRow(spec.shard, [...context.parts, ...context.otherParts], hasBadKey);
  return `WITH ${inputCtes(context)},
    input AS (SELECT * FROM whole_input WHERE ${isOwn}),
    joined AS (
      SELECT input.*, ${seenHash(context)} AS seen_hash,
        s.source_key IS NOT NULL AS is_known, (s.source_key IS NOT NULL AND s.input_hash IS NULL) AS is_kept, s.outcome AS prior, s.input_hash AS prior_hash,
        s.parameters_hash AS prior_parameters, s.sent_service_pid AS prior_pid, s.due_at,
        ${pidColumns(context)}
      FROM input
      LEFT JOIN (SELECT * FROM ${context.states ?? relation(context, "lookup_state")} WHERE job = ${quoteLiteral(spec.job)} AND source = ${quoteLiteral(spec.input.name)}) AS s
        ON s.source_key = input.source_key
      ${pidJoins(context)}),
    judged AS (
      SELECT joined.*,
        CASE
          WHEN NOT is_known THEN 'never_answered'
          WHEN prior_hash <> seen_hash THEN 'content_changed'
          WHEN prior = 'rejected' AND due_at <= CURRENT_TIMESTAMP() THEN 'retried'
          WHEN prior_parameters <> ${quoteLiteral(spec.parametersHash)} THEN 'parameters_changed'
          WHEN NOT is_kept AND prior_pid IS DISTINCT FROM pid THEN 'pid_changed'
          WHEN due_at <= CURRENT_TIMESTAMP() THEN 'expired'
          WHEN ${spec.resend} THEN 'resend'
        END AS reason
      FROM joined),
    validated AS (${withInvalidEmails(context)}),
    kept AS (SELECT validated.*${sentEmails(context)} FROM validated),
    sent AS (
      SELECT kept.*, ${inputHash(context)} AS input_hash,
        ${isSentAsIs ? inputHash(context) : contentHash(withPid)} AS sent_hash,
        ${usable} AS is_usable, ${resolvable} AS is_resolvable,
        IF(reason IS NOT NULL, ${recordJson(withPid)}, NULL) AS record
      FROM kept),
    classed AS (
      SELECT *,
        IFNULL(is_known AND prior <> 'rejected' AND prior_parameters <> ${quoteLiteral(spec.parametersHash)}, FALSE) AS changed_parameters,
        CASE
          WHEN source_key IS NULL THEN 'reject:missing_key'
          WHEN ${IS_TOO_LONG} THEN 'reject:key_too_long'
          WHEN copy > 1 THEN 'reject:duplicate_key'
          WHEN prior = 'rejected' AND prior_hash = seen_hash AND prior_pid IS NOT DISTINCT FROM pid
            AND reason IS DISTINCT FROM 'retried' THEN 'unchanged'
          WHEN is_waiting THEN 'waiting'
          WHEN reason IS NULL THEN 'unchanged'
          WHEN NOT is_usable THEN 'reject:no_identifier'
          WHEN NOT is_resolvable THEN 'reject:not_resolvable'
          ELSE reason
        END AS class
      FROM sent)
    ${withoutSuppressed(context)}`;
}

const CLASSED = "source_key, prior, input_hash, sent_hash, pid, rank, record, 1 AS occurrences";

/** Of classified rows those that name an erased person are `suppressed`, unless nothing would become of them anyway. */
function withoutSuppressed({ suppressed, spec, parts }: ClassifyContext): string {
  if (!suppressed) return `SELECT ${CLASSED}, changed_parameters, class FROM classed`;
  const hashes = [
    suppressed.sourceKeyHash(spec.input.name, "source_key"),
    suppressed.pidHash("pid"),
    ...parts.flatMap(({ field, isArray, name }) => {
      if (field === "service_pid") return [suppressed.pidHash(name)];
      return field === "emails" && !isArray ? [suppressed.emailHash(name)] : [];
    }),
  ];
  const lists = parts
    .filter(({ field, isArray }) => field === "emails" && isArray)
    .map(({ name }) => `ARRAY(SELECT ${suppressed.emailHash("e")} FROM UNNEST(${name}) AS e)`);
  const kept = "class IN ('unchanged', 'reject:missing_key')";
  const subjects = [`[${hashes.join(", ")}]`, ...lists].join(", ");
  return `SELECT ${CLASSED}, changed_parameters AND erased_key IS NULL AS changed_parameters,
      IF(erased_key IS NULL, class, 'suppressed') AS class
    FROM classed LEFT JOIN (
      SELECT DISTINCT c.source_key AS erased_key, c.copy AS erased_copy
      FROM (SELECT source_key, copy, ARRAY_CONCAT(${subjects}) AS subjects FROM classed WHERE NOT ${kept}) AS c,
        UNNEST(c.subjects) AS subject
      WHERE ${suppressed.isErased("subject")}) AS erased
      ON erased_key = source_key AND erased_copy = copy AND NOT ${kept}`;
}

function pidColumns(context: ClassifyContext): string {
  if (context.spec.pidFrom === null) return "CAST(NULL AS STRING) AS pid, FALSE AS is_waiting";
  const hash = contentHash(valuesOf(resolvedParts(context)));
  // A row whose content changed since it was resolved waits, and one that was refused since goes without: the PID that
  // was found before may be that of somebody else.
  return `IF(ps.outcome = 'matched' AND r.is_match, r.service_pid, NULL) AS pid,
    (ps.source_key IS NULL OR (is_recent AND ps.input_hash <> ${hash})) AS is_waiting`;
}

function pidJoins(context: ClassifyContext): string {
  const { spec } = context;
  if (spec.pidFrom === null) return "";
  const own = `WHERE job = ${quoteLiteral(spec.pidFrom ?? "")} AND source = ${quoteLiteral(spec.input.name)}`;
  return `LEFT JOIN (SELECT source_key, outcome, input_hash FROM ${relation(context, "lookup_state")} ${own}) AS ps
      ON ps.source_key = input.source_key
    LEFT JOIN (SELECT source_key, is_match, service_pid FROM ${relation(context, "resolution")} ${own}) AS r
      ON r.source_key = input.source_key`;
}

/**
 * The input rows of a validate_emails job, of all shards: source_key, copy, rank, position, email_address, one row an
 * address, and whether it or its row is an erased person's.
 */
export function inputAddresses(context: ClassifyContext): string {
  const { suppressed, spec } = context;
  const isSuppressed = suppressed
    ? `${suppressed.sourceKey(spec.input.name, "source_key")} OR ${suppressed.email("email_address")}`
    : "FALSE";
  return `WITH ${inputCtes(context)},
    address AS (
      SELECT source_key, copy, rank, o AS position, email_address
      FROM whole_input LEFT JOIN UNNEST(${allTexts(valuesOf(context.parts))}) AS email_address WITH OFFSET AS o)
    SELECT *, ${isSuppressed} AS is_suppressed FROM address`;
}

/**
 * Every distinct address of a validate_emails job with its `class` (see {@link classifiedRows}) and how often it
 * occurs.
 * @param addresses the table of {@link inputAddresses}.
 */
export function classifiedAddresses(context: ClassifyContext, addresses: string): string {
  const { spec } = context;
  const isOwn = `email_address IS NOT NULL AND ${ownsKey(spec.shard, "email_address")}`;
  return `WITH address AS (
      SELECT email_address, COUNT(*) AS occurrences, MIN(rank) AS rank, SHA256(email_address) AS input_hash FROM ${addresses}
      WHERE ${isOwn} AND NOT is_suppressed GROUP BY email_address)
    SELECT email_address AS source_key, s.outcome AS prior, address.input_hash, address.input_hash AS sent_hash,
      CAST(NULL AS STRING) AS pid, rank, TO_JSON_STRING(email_address) AS record, occurrences,
      IFNULL(s.outcome <> 'rejected' AND s.parameters_hash <> ${quoteLiteral(spec.parametersHash)}, FALSE) AS changed_parameters,
      CASE
        WHEN BYTE_LENGTH(email_address) > ${MAX_KEY_BYTES} THEN 'reject:key_too_long'
        WHEN s.outcome = 'rejected' AND s.due_at <= CURRENT_TIMESTAMP() THEN 'retried'
        WHEN s.outcome = 'rejected' THEN 'unchanged'
        WHEN s.source_key IS NULL THEN 'never_answered'
        WHEN s.parameters_hash <> ${quoteLiteral(spec.parametersHash)} THEN 'parameters_changed'
        WHEN s.due_at <= CURRENT_TIMESTAMP() THEN 'expired'
        WHEN ${spec.resend} THEN 'resend'
        ELSE 'unchanged'
      END AS class
    FROM address
    LEFT JOIN (SELECT * FROM ${context.states ?? relation(context, "lookup_state")} WHERE job = ${quoteLiteral(spec.job)} AND source = ${quoteLiteral(spec.input.name)}) AS s
      ON s.source_key = address.email_address
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, COUNT(*), FALSE, 'suppressed' FROM ${addresses}
    WHERE ${isOwn} AND is_suppressed HAVING COUNT(*) > 0`;
}
