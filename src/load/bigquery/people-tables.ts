import { type RawBuilder, sql } from "kysely";
import type { KnownBy, RowKey } from "../erasure-warehouse.ts";
import type { NamingTable } from "../naming-tables.ts";
import { normalizedEmail } from "../subject-hash.ts";
import { quoteIdentifier } from "./names.ts";
import { normalizedAddress } from "./suppression.ts";

/**
 * Statements that make temporary tables with what people are known by: `erased_pid`, `erased_email`, `erased_row`. A script of
 * them ends with {@link dropPeople}: BigQuery keeps temporary tables for a day.
 */
export function stagePeople({ pids, emails, rows }: KnownBy): readonly RawBuilder<unknown>[] {
  return stageQueries({
    pids: pidsQuery(pids),
    emails: emailsQuery(emails),
    rows: rowsQuery(rows),
  });
}

/** Likewise, with what queries find. */
export function stageQueries(of: {
  readonly pids: RawBuilder<unknown>;
  readonly emails: RawBuilder<unknown>;
  readonly rows: RawBuilder<unknown>;
}): readonly RawBuilder<unknown>[] {
  return [
    sql`CREATE TEMP TABLE erased_pid AS SELECT DISTINCT f.pid FROM (${of.pids}) AS f WHERE f.pid IS NOT NULL`,
    sql`CREATE TEMP TABLE erased_email AS SELECT DISTINCT f.email FROM (${of.emails}) AS f WHERE f.email <> ''`,
    sql`CREATE TEMP TABLE erased_row AS SELECT DISTINCT f.source, f.source_key, ${sql.raw(rowText("f.source", "f.source_key"))} AS text
      FROM (${of.rows}) AS f WHERE f.source_key IS NOT NULL`,
  ];
}

/** Drops those tables. */
export const dropPeople: readonly RawBuilder<unknown>[] = ["erased_pid", "erased_email", "erased_row"].map(
  (table) => sql.raw(`DROP TABLE ${table}`),
);

/** PIDs as a query. */
export function pidsQuery(pids: readonly string[]): RawBuilder<unknown> {
  return sql`SELECT pid FROM UNNEST(${[...pids]}) AS pid`;
}

/** Addresses as a query. */
export function emailsQuery(emails: readonly string[]): RawBuilder<unknown> {
  return sql`SELECT email FROM UNNEST(${emails.map(normalizedEmail)}) AS email`;
}

/** Input rows as a query. */
export function rowsQuery(rows: readonly RowKey[]): RawBuilder<unknown> {
  return sql`SELECT JSON_VALUE(e, '$.source') AS source, JSON_VALUE(e, '$.sourceKey') AS source_key
    FROM UNNEST(${rows.map((row) => JSON.stringify(row))}) AS e`;
}

/** A statement that adds PIDs which a query finds (`pid`), nulls and known ones left out. */
export function addPids(query: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`INSERT INTO erased_pid (pid)
    SELECT DISTINCT f.pid FROM (${query}) AS f WHERE f.pid IS NOT NULL AND f.pid NOT IN (SELECT k.pid FROM erased_pid AS k)`;
}

/** Likewise addresses (`email`), in the form in which they are compared. */
export function addEmails(query: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`INSERT INTO erased_email (email)
    SELECT DISTINCT f.email FROM (${query}) AS f WHERE f.email <> '' AND f.email NOT IN (SELECT k.email FROM erased_email AS k)`;
}

/** Likewise input rows (`source`, `source_key`). */
export function addRows(query: RawBuilder<unknown>): RawBuilder<unknown> {
  const text = sql.raw(rowText("f.source", "f.source_key"));
  return sql`INSERT INTO erased_row (source, source_key, text)
    SELECT DISTINCT f.source, f.source_key, ${text} FROM (${query}) AS f
    WHERE f.source_key IS NOT NULL AND ${text} NOT IN (SELECT k.text FROM erased_row AS k)`;
}

/** A PID, an address, or a row by its source and key. */
export interface StagedRow {
  readonly kind: "pid" | "email" | "row";
  readonly a: string;
  /** The key of a row. */
  readonly b: string | null;
}

/** What is staged, as a query. */
export const stagedPeople = sql<StagedRow>`SELECT 'pid' AS kind, pid AS a, CAST(NULL AS STRING) AS b FROM erased_pid
  UNION ALL SELECT 'email', email, NULL FROM erased_email
  UNION ALL SELECT 'row', source, source_key FROM erased_row`;

/** One text for an input row: which no two rows share. */
function rowText(source: string, key: string): string {
  return `CONCAT(CAST(BYTE_LENGTH(${source}) AS STRING), ':', ${source}, ':', ${key})`;
}

/** Whether a PID column names somebody staged. */
export function isStagedPid(expression: string): string {
  return `${expression} IN (SELECT known.pid FROM erased_pid AS known)`;
}

/** Whether an address is somebody's staged. */
export function isStagedEmail(expression: string): string {
  return `${normalizedAddress(expression)} IN (SELECT known.email FROM erased_email AS known)`;
}

/** Whether an input row is staged; false for null. */
export function isStagedRow(alias: string): string {
  return `IFNULL(${rowText(`${alias}.source`, `${alias}.source_key`)}, '') IN (SELECT known.text FROM erased_row AS known)`;
}

function at(name: string): string {
  return `t.${quoteIdentifier(name)}`;
}

/** Whether a row `t` of a table names somebody staged, so that it has to go. */
export function namesStaged({ people }: Pick<NamingTable, "people">): string {
  const tests = [
    ...(people.pids ?? []).map((name) => isStagedPid(at(name))),
    ...(people.emails ?? []).map((name) => isStagedEmail(at(name))),
    ...(people.isOfInputRow ? [isStagedRow("t")] : []),
    ...(people.mentions ?? []).map(
      (
        name,
      ) => `EXISTS (SELECT 1 FROM UNNEST(ARRAY(SELECT TO_JSON_STRING(known.pid) FROM erased_pid AS known)) AS e
        WHERE STRPOS(TO_JSON_STRING(${at(name)}), e) > 0)`,
    ),
  ];
  return tests.length === 0 ? "FALSE" : `(${tests.join(" OR ")})`;
}
