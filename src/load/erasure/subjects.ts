import { type RawBuilder, sql } from "kysely";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { normalizedAddress, normalizedEmail } from "./addresses.ts";
import type { ErasureKey } from "./key.ts";
import { hashedText, hashOf, type SubjectSql } from "./naming.ts";

/** One input row. */
export interface RowKey {
  readonly source: string;
  readonly sourceKey: string;
}

/** Identifiers of people. */
export interface Identifiers {
  readonly pids: readonly string[];
  readonly emails: readonly string[];
  readonly rows: readonly RowKey[];
}

/** People of an erasure. */
export interface FoundPeople {
  /** Subjects of the erasure; addresses are normalized. */
  readonly people: Identifiers;
  /** Addresses of these people that others have too: no subjects, so they stay. Normalized. */
  readonly sharedEmails: readonly string[];
  /** Identifiers that the search starts with: those named by the user, and those of input rows with them. */
  readonly seed: Identifiers;
  /** True if PIDs shared with other input rows are skipped. */
  readonly sparesOthers: boolean;
  /** True if a table or an input has a row of these people. */
  readonly isKnown: boolean;
}

/** Rows by table. */
export type RowsByTable = Readonly<Record<string, number>>;

/** Fills temporary tables of this transaction with identifiers: `erased_pid`, `erased_email`, `erased_row`. */
export async function stageSubjects(session: Session, people: Identifiers): Promise<void> {
  await session.client.query(`DROP TABLE IF EXISTS pg_temp.erased_pid, pg_temp.erased_email, pg_temp.erased_row;
    CREATE TEMP TABLE erased_pid (pid text PRIMARY KEY) ON COMMIT DROP;
    CREATE TEMP TABLE erased_email (email text PRIMARY KEY) ON COMMIT DROP;
    CREATE TEMP TABLE erased_row (source text, source_key text, PRIMARY KEY (source, source_key)) ON COMMIT DROP`);
  await addIdentifiers(session, people);
}

/** Adds identifiers to the staged ones. */
export async function addIdentifiers(session: Session, { pids, emails, rows }: Identifiers): Promise<void> {
  await addPids(session, sql`SELECT unnest(${[...pids]}::text[])`);
  await addEmails(session, sql`SELECT unnest(${emails.map(normalizedEmail)}::text[])`);
  await addRows(session, rowsQuery(rows));
}

function rowsQuery(rows: readonly RowKey[]): RawBuilder<unknown> {
  return sql`SELECT r.source, r."sourceKey"
    FROM json_to_recordset(${JSON.stringify(rows)}::json) AS r(source text, "sourceKey" text)`;
}

/** Adds PIDs of a query, except nulls and known ones; returns the number of new ones. */
export function addPids(session: Session, query: RawBuilder<unknown>): Promise<number> {
  return session.change(sql`INSERT INTO pg_temp.erased_pid
    SELECT DISTINCT pid FROM (${query}) AS found(pid) WHERE pid IS NOT NULL ON CONFLICT DO NOTHING`);
}

/** Adds normalized addresses of a query, except nulls and known ones; returns the number of new ones. */
export function addEmails(session: Session, query: RawBuilder<unknown>): Promise<number> {
  return session.change(sql`INSERT INTO pg_temp.erased_email
    SELECT DISTINCT email FROM (${query}) AS found(email) WHERE email <> '' ON CONFLICT DO NOTHING`);
}

/** Adds input rows of a query, except known ones; returns the number of new ones. */
export function addRows(session: Session, query: RawBuilder<unknown>): Promise<number> {
  return session.change(sql`INSERT INTO pg_temp.erased_row
    SELECT DISTINCT source, source_key FROM (${query}) AS found(source, source_key)
    WHERE source_key IS NOT NULL ON CONFLICT DO NOTHING`);
}

/** Returns the staged identifiers. */
export async function stagedSubjects(session: Session): Promise<Identifiers> {
  const pids = await session.rows<{ pid: string }>(sql`SELECT pid FROM pg_temp.erased_pid ORDER BY pid`);
  const emails = await session.rows<{ email: string }>(
    sql`SELECT email FROM pg_temp.erased_email ORDER BY email`,
  );
  const rows = await session.rows<{ source: string; sourceKey: string }>(
    sql`SELECT source, source_key AS "sourceKey" FROM pg_temp.erased_row ORDER BY 1, 2`,
  );
  return { pids: pids.map(({ pid }) => pid), emails: emails.map(({ email }) => email), rows };
}

/** Number of subjects above which looking for each of them in a text takes longer than cutting out what may be one. */
const FEW_SUBJECTS = 50;

/** Conditions for the staged subjects. */
export const stagedSql: SubjectSql = {
  pid: (expression) => sql`${sql.raw(expression)} IN (SELECT pid FROM pg_temp.erased_pid)`,
  email: (expression) =>
    sql`${sql.raw(normalizedAddress(expression))} IN (SELECT email FROM pg_temp.erased_email)`,
  row: (source, sourceKey) =>
    sql`(${sql.raw(source)}, ${sql.raw(sourceKey)}) IN (SELECT source, source_key FROM pg_temp.erased_row)`,
  within: (text) => sql`CASE
    WHEN (SELECT count(*) FROM pg_temp.erased_pid) + (SELECT count(*) FROM pg_temp.erased_email) > ${sql.lit(FEW_SUBJECTS)} THEN true
    ELSE EXISTS (SELECT FROM pg_temp.erased_pid WHERE strpos(${sql.raw(text)}, pid) > 0)
      OR EXISTS (SELECT FROM pg_temp.erased_email WHERE strpos(lower(${sql.raw(text)} COLLATE "C"), email) > 0) END`,
};

/** Stores the hashes of the staged subjects and of the contents of their rows, and a tombstone for each PID and row. */
export async function storeSubjects(
  session: Session,
  names: SchemaNames,
  key: ErasureKey,
  erasureId: string,
): Promise<void> {
  const subjects = [
    sql`SELECT 'pid' AS kind, ${hashOf(key, hashedText.pid("pid"))} AS hash FROM pg_temp.erased_pid`,
    sql`SELECT 'email', ${hashOf(key, hashedText.email("email"))} FROM pg_temp.erased_email`,
    sql`SELECT 'source_key', ${hashOf(key, hashedText.row("source", "source_key"))} FROM pg_temp.erased_row`,
    sql`SELECT 'content', ${hashOf(key, hashedText.content("content"))} FROM pg_temp.erased_content`,
  ];
  await session.change(sql`
    INSERT INTO ${tableId(names, "erasure_subject")}
      (erasure_id, kind, subject_hash, key_id, requested_at, rows_removed, _synced_at, _run_id)
    SELECT ${erasureId}::uuid, kind, hash, ${key.id}, now(), 0, now(), ${erasureId}
    FROM (${sql.join(subjects, sql` UNION ALL `)}) AS s ORDER BY hash ON CONFLICT DO NOTHING`);
  await session.change(sql`
    INSERT INTO ${tableId(names, "tombstone")}
      (tombstone_id, service_pid, source, source_key, erased_at, _synced_at, _run_id)
    SELECT gen_random_uuid(), pid, source, source_key, now(), now(), ${erasureId} FROM (
      SELECT pid, NULL AS source, NULL AS source_key FROM pg_temp.erased_pid
      UNION ALL SELECT NULL, source, source_key FROM pg_temp.erased_row) AS s`);
}
