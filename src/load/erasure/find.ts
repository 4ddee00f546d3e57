import { type RawBuilder, sql } from "kysely";
import type { Db } from "../db/db.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import { type Session, withRolePath } from "../db/session.ts";
import { type Identifiers, inputDefinition, type InputSource, type NamingRow } from "../inputs/input.ts";
import { raw } from "../inputs/postgres.ts";
import { findRows } from "../inputs/read.ts";
import { normalizedAddress, normalizedEmail } from "../inputs/columns.ts";
import {
  addEmails,
  addIdentifiers,
  addPids,
  addRows,
  type FoundPeople,
  stagedSql,
  stagedSubjects,
  stageSubjects,
} from "./subjects.ts";

/** An input, and its search for rows that name people. */
interface SearchedInput {
  readonly input: InputSource;
  readonly find: (wanted: Identifiers) => Promise<readonly NamingRow[]>;
}

/** Maximum number of PID replacements followed for one person. */
const MOST_ALIASES = 10;

/**
 * Finds the people with the given identifiers: rows and addresses lead to PIDs, PIDs to rows and addresses. Goes no further,
 * and takes no address that others have too, unless it was given: families and offices share addresses.
 */
export async function findPeople(
  db: Db,
  named: Identifiers,
  inputs: readonly InputSource[],
  { spareOthers: sparesOthers }: { readonly spareOthers: boolean } = { spareOthers: false },
): Promise<FoundPeople> {
  return db.preview(async (session) => {
    // In this session: behind a pooler there may be no other connection.
    const findHere = (input: InputSource, wanted: Identifiers) =>
      withRolePath(session, () => session.readOnly(() => findRows(session, input, wanted)));
    const searched = inputs.map((input) => ({
      input,
      find: (wanted: Identifiers) => db.foreignOf(input)?.findRows(input, wanted) ?? findHere(input, wanted),
    }));
    await stageSubjects(session, named);
    const inputRows = sparesOthers ? 0 : await searchInputs(session, searched);
    if (sparesOthers) await addFormerNames(session, inputs);
    const seed = await stagedSubjects(session);
    const added = await followStaged(session, sparesOthers);
    if (!sparesOthers) await addAddressesOfRows(session, searched);
    const sharedEmails = [
      ...(await removeShared(session, seed.emails)),
      ...(await removeSharedInInputs(session, searched, { keep: seed.emails, sparesOthers })),
    ];
    const people = await stagedSubjects(session);
    return {
      people,
      sharedEmails: sharedEmails.toSorted(),
      seed,
      sparesOthers,
      isKnown: inputRows + added > 0,
    };
  });
}

/** Stages the subjects of a request in its own transaction: as found before, with what the tables have by now. */
export async function stageFound(
  session: Session,
  { people, seed, sparesOthers, sharedEmails }: FoundPeople,
): Promise<void> {
  if (sparesOthers) {
    // Only the inputs, read before, show what others have.
    await stageSubjects(session, people);
    return;
  }
  await stageSubjects(session, seed);
  await followStaged(session, false);
  await addIdentifiers(session, people);
  await removeShared(session, seed.emails);
  await session.change(sql`DELETE FROM pg_temp.erased_email WHERE email = ANY(${[...sharedEmails]}::text[])`);
}

/** Adds all identifiers of the staged people from the tables; returns the number of new ones. */
async function followStaged(session: Session, sparesOthers: boolean): Promise<number> {
  let added = 0;
  const table = (name: string) => session.table(name);
  added += await addRows(
    session,
    sql`SELECT source, source_key FROM ${table("input_email")} WHERE ${stagedSql.email("email_address")}`,
  );
  added += await addPidsOfRows(session);
  added += await addPids(
    session,
    sql`SELECT service_pid FROM ${table("person_email")} WHERE ${stagedSql.email("email_address")}`,
  );
  added += await addPids(session, pidsOfContacts(session.names));
  if (sparesOthers) await sparePids(session);
  await addAliases(session);
  if (sparesOthers) await sparePids(session);
  else await addRowsOfPids(session);
  added += await addEmails(
    session,
    sql`SELECT ${raw(normalizedAddress("email_address"))} FROM ${table("person_email")}
      WHERE ${stagedSql.pid("service_pid")}`,
  );
  added += await addEmails(
    session,
    sql`SELECT ${raw(normalizedAddress("e.email_address"))} FROM ${table("input_email")} AS e
      JOIN pg_temp.erased_row AS r ON r.source = e.source AND r.source_key = e.source_key`,
  );
  return added;
}

/** Adds the PIDs that staged input rows were answered with; returns the number of new ones. */
export async function addPidsOfRows(session: Session): Promise<number> {
  let added = 0;
  for (const answers of ["resolution", "enrichment"]) {
    added += await addPids(
      session,
      sql`SELECT unnest(ARRAY[a.service_pid, a.last_matched_service_pid]) FROM ${session.table(answers)} AS a
        JOIN pg_temp.erased_row AS r ON r.source = a.source AND r.source_key = a.source_key`,
    );
  }
  return added;
}

/** Query for the PIDs of contacts whose jacket has a staged address as a value: the jacket is all that is known of a contact's addresses. */
function pidsOfContacts(names: SchemaNames): RawBuilder<unknown> {
  return sql`SELECT service_pid FROM ${tableId(names, "contact_job_result")} WHERE EXISTS (
    SELECT FROM jsonb_path_query(jacket, 'strict $.** ? (@.type() == "string" && @ like_regex "@")') AS v(value)
    WHERE ${stagedSql.email("(v.value #>> '{}')")})`;
}

/** Adds input rows that were answered with a staged PID. */
async function addRowsOfPids(session: Session): Promise<void> {
  for (const answers of ["resolution", "enrichment"]) {
    await addRows(
      session,
      sql`SELECT source, source_key FROM ${session.table(answers)}
        WHERE ${stagedSql.pid("service_pid")} OR ${stagedSql.pid("last_matched_service_pid")}`,
    );
  }
}

async function addAliases(session: Session): Promise<void> {
  const alias = session.table("person_pid_alias");
  for (let step = 0; step < MOST_ALIASES; step++) {
    const added = await addPids(
      session,
      sql`SELECT returned_service_pid FROM ${alias} WHERE ${stagedSql.pid("sent_service_pid")}
        UNION SELECT sent_service_pid FROM ${alias} WHERE ${stagedSql.pid("returned_service_pid")}`,
    );
    if (added === 0) return;
  }
}

/** Removes PIDs that other input rows were answered with. */
export async function sparePids(session: Session): Promise<void> {
  for (const answers of ["resolution", "enrichment"]) {
    await session.change(sql`DELETE FROM pg_temp.erased_pid AS p USING ${session.table(answers)} AS a
      WHERE p.pid IN (a.service_pid, a.last_matched_service_pid)
        AND NOT EXISTS (SELECT FROM pg_temp.erased_row AS r WHERE r.source = a.source AND r.source_key = a.source_key)`);
  }
}

/** Removes addresses that other stored rows or people have too, except those to keep; returns them. */
async function removeShared(session: Session, keep: readonly string[]): Promise<readonly string[]> {
  const address = raw(normalizedAddress("o.email_address"));
  const rows = await session.rows<{ email: string }>(sql`
    DELETE FROM pg_temp.erased_email AS m WHERE m.email <> ALL(${[...keep]}::text[]) AND (
      m.email IN (SELECT ${address} FROM ${session.table("input_email")} AS o
        WHERE NOT coalesce(${stagedSql.row("o.source", "o.source_key")}, false))
      OR m.email IN (SELECT ${address} FROM ${session.table("person_email")} AS o
        WHERE NOT coalesce(${stagedSql.pid("o.service_pid")}, false)))
    RETURNING m.email`);
  return rows.map(({ email }) => email);
}

/** Adds input rows with a staged key, address or PID, also under a former name of their input; returns how many. */
async function searchInputs(session: Session, inputs: readonly SearchedInput[]): Promise<number> {
  const staged = await stagedSubjects(session);
  let count = 0;
  for (const { input, find } of inputs) {
    const found = await find(staged);
    count += found.length;
    const sources = await namesOf(session, input);
    const rows = found.flatMap(({ sourceKey }) =>
      sourceKey === null ? [] : sources.map((source) => ({ source, sourceKey })),
    );
    await addIdentifiers(session, { rows, pids: found.flatMap(({ pids }) => pids), emails: [] });
  }
  return count;
}

/** Names under which an input was read, the present one first. */
async function namesOf(session: Session, input: InputSource): Promise<readonly string[]> {
  const read = await session.rows<{ source: string }>(sql`
    SELECT DISTINCT source FROM ${session.table("lookup_job")} WHERE input_definition = ${inputDefinition(input)}`);
  return [...new Set([input.name, ...read.map(({ source }) => source)])];
}

/** Adds the staged rows under former names of their input. */
async function addFormerNames(session: Session, inputs: readonly InputSource[]): Promise<void> {
  for (const input of inputs) {
    const sources = await namesOf(session, input);
    await addRows(
      session,
      sql`SELECT s.source, r.source_key FROM pg_temp.erased_row AS r CROSS JOIN unnest(${sources}::text[]) AS s(source)
        WHERE r.source = ${input.name}`,
    );
  }
}

/** Adds the addresses of the staged rows in their inputs. */
async function addAddressesOfRows(session: Session, inputs: readonly SearchedInput[]): Promise<void> {
  const { rows } = await stagedSubjects(session);
  for (const { find } of inputs) {
    const found = await find({ pids: [], emails: [], rows });
    await addIdentifiers(session, { pids: [], emails: found.flatMap(({ emails }) => emails), rows: [] });
  }
}

/**
 * Removes addresses that other input rows have too, except those to keep, and PIDs if others are spared. Returns the addresses.
 */
async function removeSharedInInputs(
  session: Session,
  inputs: readonly SearchedInput[],
  { keep, sparesOthers }: { readonly keep: readonly string[]; readonly sparesOthers: boolean },
): Promise<readonly string[]> {
  const staged = await stagedSubjects(session);
  const kept = new Set(keep);
  const wanted = {
    emails: staged.emails.filter((email) => !kept.has(email)),
    pids: sparesOthers ? staged.pids : [],
    rows: [],
  };
  const gone = new Set(staged.rows.map(({ source, sourceKey }) => JSON.stringify([source, sourceKey])));
  const shared: { email: string }[] = [];
  for (const { input, find } of inputs) {
    const found = await find(wanted);
    const others = found.filter(({ sourceKey }) => !gone.has(JSON.stringify([input.name, sourceKey])));
    const emails = others.flatMap((row) => row.emails.map(normalizedEmail));
    shared.push(
      ...(await session.rows<{ email: string }>(sql`
        DELETE FROM pg_temp.erased_email WHERE email = ANY(${emails}::text[]) AND email <> ALL(${[...keep]}::text[])
        RETURNING email`)),
    );
    if (!sparesOthers) continue;
    await session.change(
      sql`DELETE FROM pg_temp.erased_pid WHERE pid = ANY(${others.flatMap(({ pids }) => pids)}::text[])`,
    );
  }
  return shared.map(({ email }) => email);
}

/** Kinds whose content is an address. */
const IS_ADDRESS = "kind LIKE 'validate_emails:%'";

/** Condition: the content of a validation is a staged address. */
const isStagedAddress = (alias: string): RawBuilder<unknown> =>
  sql`CASE WHEN ${sql.raw(`${alias}.${IS_ADDRESS}`)} THEN ${stagedSql.email(`convert_from(${alias}.content, 'UTF8')`)} ELSE false END`;

/** Condition: a content was of an erased row. */
const isErased = (alias: string) =>
  sql`${sql.id(alias)}.content IN (SELECT content FROM pg_temp.erased_content)`;

/**
 * Removes what is due and what was answered for the staged subjects, before their rows of `lookup_row`: the contents of their input
 * rows that no other row has (left in `pg_temp.erased_content`), records that name them, and answers with their PIDs.
 */
export async function removeLookupState(session: Session): Promise<void> {
  const row = session.table("lookup_row");
  const isTheirs = sql`((r.source, r.source_key) IN (SELECT source, source_key FROM pg_temp.erased_row) OR ${stagedSql.email("r.source_key")})`;
  await session.client.query(
    "CREATE TEMP TABLE IF NOT EXISTS erased_content (content bytea PRIMARY KEY) ON COMMIT DROP; TRUNCATE pg_temp.erased_content",
  );
  await session.change(sql`INSERT INTO pg_temp.erased_content SELECT DISTINCT r.content FROM ${row} AS r
    WHERE r.content IS NOT NULL AND ${isTheirs}`);
  await session.change(
    sql`DELETE FROM pg_temp.erased_content AS c USING ${row} AS r WHERE r.content = c.content AND NOT ${isTheirs}`,
  );
  await session.change(sql`DELETE FROM ${session.table("lookup_due")} AS d
    WHERE ${isErased("d")} OR ${isStagedAddress("d")} OR ${stagedSql.pid("d.sent_service_pid")}
      OR CASE WHEN d.record LIKE '{%' THEN ${stagedSql.pid("(d.record::json ->> 'service_pid')")}
        OR EXISTS (SELECT FROM json_array_elements_text(d.record::json -> 'emails') AS e(e) WHERE ${stagedSql.email("e.e")}) ELSE false END`);
  await session.change(sql`DELETE FROM ${session.table("lookup_answer")} AS a
    WHERE ${isErased("a")} OR ${isStagedAddress("a")} OR ${stagedSql.pid("a.service_pid")} OR ${stagedSql.pid("a.sent_service_pid")}`);
}
