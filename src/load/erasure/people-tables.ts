import { type RawBuilder, sql } from "kysely";
import { normalizedEmail } from "./subject-hash.ts";
import type { Identifiers, RowKey } from "./people.ts";
import type { NamingTable } from "./naming-tables.ts";
import { quoteIdentifier } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { mentionsAny, normalizedAddress } from "./suppressed-sql.ts";

/** Fills temporary tables of this transaction with identifiers: `erased_pid`, `erased_email`, `erased_row`. */
export async function stagePeople(session: Session, people: Identifiers): Promise<void> {
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

/** Query that yields input rows. */
export function rowsQuery(rows: readonly RowKey[]): RawBuilder<unknown> {
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
export async function stagedPeople(session: Session): Promise<Identifiers> {
  const pids = await session.rows<{ pid: string }>(sql`SELECT pid FROM pg_temp.erased_pid ORDER BY pid`);
  const emails = await session.rows<{ email: string }>(
    sql`SELECT email FROM pg_temp.erased_email ORDER BY email`,
  );
  const rows = await session.rows<{ source: string; sourceKey: string }>(
    sql`SELECT source, source_key AS "sourceKey" FROM pg_temp.erased_row ORDER BY 1, 2`,
  );
  return { pids: pids.map(({ pid }) => pid), emails: emails.map(({ email }) => email), rows };
}

/** Condition for a staged PID in a column. */
export function isStagedPid(expression: string): RawBuilder<unknown> {
  return sql`${sql.raw(expression)} IN (SELECT pid FROM pg_temp.erased_pid)`;
}

/** Condition for a staged address. */
export function isStagedEmail(expression: string): RawBuilder<unknown> {
  return sql`${sql.raw(normalizedAddress(expression))} IN (SELECT email FROM pg_temp.erased_email)`;
}

function at(name: string): string {
  return `t.${quoteIdentifier(name)}`;
}

/** Condition for rows `t` of a table that name staged people and must be removed. */
export function namesStaged({ people }: NamingTable): RawBuilder<unknown> {
  const tests = [
    ...(people.pids ?? []).map((name) => isStagedPid(at(name))),
    ...(people.emails ?? []).map((name) => isStagedEmail(at(name))),
    ...(people.isOfInputRow
      ? [sql`(t.source, t.source_key) IN (SELECT source, source_key FROM pg_temp.erased_row)`]
      : []),
    ...(people.mentions ?? []).map((name) =>
      mentionsAny(at(name), { pid: isStagedPid, email: isStagedEmail }),
    ),
  ];
  return tests.length === 0 ? sql`false` : sql`(${sql.join(tests, sql` OR `)})`;
}
