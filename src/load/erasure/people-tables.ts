import { type RawBuilder, sql } from "kysely";
import { normalizedEmail } from "./subject-hash.ts";
import type { KnownBy, RowKey } from "./people.ts";
import type { NamingTable } from "./naming-tables.ts";
import { quoteIdentifier } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { normalizedAddress } from "./suppressed-sql.ts";

/** Temporary tables with what people are known by, for this transaction: `erased_pid`, `erased_email`, `erased_row`. */
export async function stagePeople(session: Session, people: KnownBy): Promise<void> {
  await session.client.query(`CREATE TEMP TABLE erased_pid (pid text PRIMARY KEY) ON COMMIT DROP;
    CREATE TEMP TABLE erased_email (email text PRIMARY KEY) ON COMMIT DROP;
    CREATE TEMP TABLE erased_row (source text, source_key text, PRIMARY KEY (source, source_key)) ON COMMIT DROP`);
  await addPids(session, sql`SELECT unnest(${[...people.pids]}::text[])`);
  await addEmails(session, sql`SELECT unnest(${people.emails.map(normalizedEmail)}::text[])`);
  await addRows(session, rowsQuery(people.rows));
}

/** Drops the temporary tables before other people are staged in the same transaction. */
export async function unstagePeople(session: Session): Promise<void> {
  await session.client.query("DROP TABLE erased_pid, erased_email, erased_row");
  await session.client.query("DROP TABLE IF EXISTS moved_person");
}

/** Input rows as a query. */
export function rowsQuery(rows: readonly RowKey[]): RawBuilder<unknown> {
  return sql`SELECT r.source, r."sourceKey"
    FROM json_to_recordset(${JSON.stringify(rows)}::json) AS r(source text, "sourceKey" text)`;
}

/** Adds PIDs that a query finds, nulls and known ones left out; returns how many are new. */
export function addPids(session: Session, query: RawBuilder<unknown>): Promise<number> {
  return session.change(sql`INSERT INTO pg_temp.erased_pid
    SELECT DISTINCT pid FROM (${query}) AS found(pid) WHERE pid IS NOT NULL ON CONFLICT DO NOTHING`);
}

/** Likewise addresses, in the form in which they are compared. */
export function addEmails(session: Session, query: RawBuilder<unknown>): Promise<number> {
  return session.change(sql`INSERT INTO pg_temp.erased_email
    SELECT DISTINCT email FROM (${query}) AS found(email) WHERE email <> '' ON CONFLICT DO NOTHING`);
}

/** Likewise input rows. */
export function addRows(session: Session, query: RawBuilder<unknown>): Promise<number> {
  return session.change(sql`INSERT INTO pg_temp.erased_row
    SELECT DISTINCT source, source_key FROM (${query}) AS found(source, source_key)
    WHERE source_key IS NOT NULL ON CONFLICT DO NOTHING`);
}

/** What is staged. */
export async function stagedPeople(session: Session): Promise<KnownBy> {
  const pids = await session.rows<{ pid: string }>(sql`SELECT pid FROM pg_temp.erased_pid ORDER BY pid`);
  const emails = await session.rows<{ email: string }>(
    sql`SELECT email FROM pg_temp.erased_email ORDER BY email`,
  );
  const rows = await session.rows<{ source: string; sourceKey: string }>(
    sql`SELECT source, source_key AS "sourceKey" FROM pg_temp.erased_row ORDER BY 1, 2`,
  );
  return { pids: pids.map(({ pid }) => pid), emails: emails.map(({ email }) => email), rows };
}

/** Whether a PID column names somebody staged. */
export function isStagedPid(expression: string): RawBuilder<unknown> {
  return sql`${sql.raw(expression)} IN (SELECT pid FROM pg_temp.erased_pid)`;
}

/** Whether an address is somebody's staged. */
export function isStagedEmail(expression: string): RawBuilder<unknown> {
  return sql`${sql.raw(normalizedAddress(expression))} IN (SELECT email FROM pg_temp.erased_email)`;
}

function at(name: string): string {
  return `t.${quoteIdentifier(name)}`;
}

/** Whether a row `t` of a table names somebody staged, so that it has to go. */
export function namesStaged({ people }: NamingTable): RawBuilder<unknown> {
  const tests = [
    ...(people.pids ?? []).map((name) => isStagedPid(at(name))),
    ...(people.emails ?? []).map((name) => isStagedEmail(at(name))),
    ...(people.isOfInputRow
      ? [sql`(t.source, t.source_key) IN (SELECT source, source_key FROM pg_temp.erased_row)`]
      : []),
    ...(people.mentions ?? []).map(
      (name) =>
        sql`EXISTS (SELECT FROM pg_temp.erased_pid AS e
          WHERE strpos(${sql.raw(at(name))}::text, to_json(e.pid)::text) > 0)`,
    ),
  ];
  return tests.length === 0 ? sql`false` : sql`(${sql.join(tests, sql` OR `)})`;
}
