import type { Db } from "../db/db.ts";
import { findRows } from "../inputs/postgres-database.ts";
import { sql } from "kysely";
import type { FoundPeople, Identifiers, RowKey } from "./people.ts";
import { namingTables } from "./naming-tables.ts";
import type { NamingRow } from "../inputs/foreign-database.ts";
import { normalizedEmail } from "./subject-hash.ts";
import { raw } from "../inputs/input.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import {
  addEmails,
  addPids,
  addRows,
  isStagedEmail,
  isStagedPid,
  rowsQuery,
  stagedPeople,
  stagePeople,
} from "./people-tables.ts";
import type { Session } from "../db/session.ts";
import { mentionsAny, normalizedAddress } from "./suppressed-sql.ts";
import type { InputSource } from "../inputs/input-source.ts";

/** An input, and its search for rows that name people. */
interface SearchedInput {
  readonly input: InputSource;
  readonly find: (wanted: Identifiers) => Promise<readonly NamingRow[]>;
}

/** Maximum number of PID replacements followed for one person. */
const MOST_ALIASES = 10;

/**
 * Finds the people with the given identifiers, and all of their identifiers: rows and addresses lead to PIDs, PIDs to
 * rows and addresses. Goes no further, because families share addresses.
 */
export async function findPeople(
  db: Db,
  named: Identifiers,
  inputs: readonly InputSource[],
  { spareOthers: sparesOthers }: { readonly spareOthers: boolean } = { spareOthers: false },
): Promise<FoundPeople> {
  const searched = inputs.map((input) => ({
    input,
    find: (wanted: Identifiers) =>
      db.foreignOf(input)?.findRows(input, wanted) ?? findRows(db.pool, input, wanted),
  }));
  return db.preview((session) => find(session, db.names, named, searched, sparesOthers));
}

async function find(
  session: Session,
  names: SchemaNames,
  named: Identifiers,
  inputs: readonly SearchedInput[],
  sparesOthers: boolean,
): Promise<FoundPeople> {
  await stagePeople(session, named);
  const inputRows = sparesOthers ? 0 : await searchInputs(session, inputs);
  const seed = await stagedPeople(session);
  const added = await followStaged(session, names, sparesOthers);
  if (sparesOthers) {
    await spareEmails(session, names);
    await spareNamedByInputs(session, inputs);
  } else {
    await addAddressesOfRows(session, inputs);
  }
  const people = await stagedPeople(session);
  return { people, seed, sparesOthers, isKnown: inputRows + added > 0 };
}

/** Adds identifiers stored since the people were found. Leaves them staged. */
export async function findAgain(
  session: Session,
  names: SchemaNames,
  { people, seed, sparesOthers }: Omit<FoundPeople, "isKnown">,
): Promise<Identifiers> {
  await stagePeople(session, seed);
  await followStaged(session, names, sparesOthers);
  // Doesn't read the inputs again, which would block other work.
  await addRows(session, rowsQuery(people.rows));
  await addEmails(session, sql`SELECT unnest(${[...people.emails]}::text[])`);
  await addPids(session, sql`SELECT unnest(${[...people.pids]}::text[])`);
  if (sparesOthers) {
    // Only the inputs, already read for `people`, show whether other rows share these identifiers.
    await session.change(
      sql`DELETE FROM pg_temp.erased_email WHERE NOT email = ANY(${[...people.emails]}::text[])`,
    );
    await session.change(
      sql`DELETE FROM pg_temp.erased_pid WHERE NOT pid = ANY(${[...people.pids]}::text[])`,
    );
  }
  return stagedPeople(session);
}

/** Adds all identifiers of the staged people from the tables; returns the number of new ones. */
async function followStaged(session: Session, names: SchemaNames, sparesOthers: boolean): Promise<number> {
  let added = 0;
  const table = (name: string) => tableId(names, name);
  added += await addRows(
    session,
    sql`SELECT source, source_key FROM ${table("input_email")} WHERE ${isStagedEmail("email_address")}`,
  );
  for (const answers of ["resolution", "enrichment"]) {
    added += await addPids(
      session,
      sql`SELECT unnest(ARRAY[a.service_pid, a.last_matched_service_pid]) FROM ${table(answers)} AS a
        JOIN pg_temp.erased_row AS r ON r.source = a.source AND r.source_key = a.source_key`,
    );
  }
  added += await addPids(
    session,
    sql`SELECT service_pid FROM ${table("person_email")} WHERE ${isStagedEmail("email_address")}`,
  );
  for (const { table: mentioning, people } of namingTables) {
    for (const column of people.mentions ?? []) {
      const isNamed = mentionsAny(column, { pid: () => sql`false`, email: isStagedEmail });
      for (const pid of people.pids ?? []) {
        added += await addPids(
          session,
          sql`SELECT ${sql.id(pid)} FROM ${table(mentioning.name)} WHERE ${isNamed}`,
        );
      }
    }
  }
  if (sparesOthers) await sparePids(session, names);
  await addAliases(session, names);
  if (sparesOthers) await sparePids(session, names);
  else await addRowsOfPids(session, names);
  added += await addEmails(
    session,
    sql`SELECT ${raw(normalizedAddress("email_address"))} FROM ${table("person_email")}
      WHERE ${isStagedPid("service_pid")}`,
  );
  added += await addEmails(
    session,
    sql`SELECT ${raw(normalizedAddress("e.email_address"))} FROM ${table("input_email")} AS e
      JOIN pg_temp.erased_row AS r ON r.source = e.source AND r.source_key = e.source_key`,
  );
  return added;
}

/** Adds input rows that were answered with a staged PID. */
export async function addRowsOfPids(session: Session, names: SchemaNames): Promise<void> {
  for (const answers of ["resolution", "enrichment"]) {
    await addRows(
      session,
      sql`SELECT source, source_key FROM ${tableId(names, answers)}
        WHERE ${isStagedPid("service_pid")} OR ${isStagedPid("last_matched_service_pid")}`,
    );
  }
}

async function addAliases(session: Session, names: SchemaNames): Promise<void> {
  const alias = tableId(names, "person_pid_alias");
  for (let step = 0; step < MOST_ALIASES; step++) {
    const added = await addPids(
      session,
      sql`SELECT returned_service_pid FROM ${alias} WHERE ${isStagedPid("sent_service_pid")}
        UNION SELECT sent_service_pid FROM ${alias} WHERE ${isStagedPid("returned_service_pid")}`,
    );
    if (added === 0) return;
  }
}

/** Removes PIDs that other input rows were answered with. */
async function sparePids(session: Session, names: SchemaNames): Promise<void> {
  for (const answers of ["resolution", "enrichment"]) {
    await session.change(sql`DELETE FROM pg_temp.erased_pid AS p USING ${tableId(names, answers)} AS a
      WHERE p.pid IN (a.service_pid, a.last_matched_service_pid)
        AND NOT EXISTS (SELECT FROM pg_temp.erased_row AS r WHERE r.source = a.source AND r.source_key = a.source_key)`);
  }
}

/** Removes addresses that other rows or PIDs have too. */
async function spareEmails(session: Session, names: SchemaNames): Promise<void> {
  await session.change(sql`DELETE FROM pg_temp.erased_email AS m USING ${tableId(names, "input_email")} AS e
    WHERE m.email = ${raw(normalizedAddress("e.email_address"))}
      AND NOT EXISTS (SELECT FROM pg_temp.erased_row AS r WHERE r.source = e.source AND r.source_key = e.source_key)`);
  await session.change(sql`DELETE FROM pg_temp.erased_email AS m USING ${tableId(names, "person_email")} AS e
    WHERE m.email = ${raw(normalizedAddress("e.email_address"))}
      AND NOT EXISTS (SELECT FROM pg_temp.erased_pid AS p WHERE p.pid = e.service_pid)`);
}

/** Adds input rows with a staged key, address or PID; returns how many. */
async function searchInputs(session: Session, inputs: readonly SearchedInput[]): Promise<number> {
  const staged = await stagedPeople(session);
  let rows = 0;
  for (const { input, find } of inputs) {
    const found = await find(staged);
    rows += found.length;
    const keys: RowKey[] = found.flatMap(({ sourceKey }) =>
      sourceKey === null ? [] : [{ source: input.name, sourceKey }],
    );
    await addRows(session, rowsQuery(keys));
    await addPids(session, sql`SELECT unnest(${found.flatMap(({ pids }) => pids)}::text[])`);
  }
  return rows;
}

/** Removes PIDs and addresses that another input row has too. */
async function spareNamedByInputs(session: Session, inputs: readonly SearchedInput[]): Promise<void> {
  const staged = await stagedPeople(session);
  const gone = new Set(staged.rows.map(({ source, sourceKey }) => JSON.stringify([source, sourceKey])));
  for (const { input, find } of inputs) {
    const found = await find({ ...staged, rows: [] });
    const others = found.filter(({ sourceKey }) => !gone.has(JSON.stringify([input.name, sourceKey])));
    const emails = others.flatMap((row) => row.emails.map(normalizedEmail));
    await session.change(sql`DELETE FROM pg_temp.erased_email WHERE email = ANY(${emails}::text[])`);
    await session.change(
      sql`DELETE FROM pg_temp.erased_pid WHERE pid = ANY(${others.flatMap(({ pids }) => pids)}::text[])`,
    );
  }
}

/** Adds the addresses of the staged rows in their inputs. */
async function addAddressesOfRows(session: Session, inputs: readonly SearchedInput[]): Promise<void> {
  const { rows } = await stagedPeople(session);
  for (const { find } of inputs) {
    const found = await find({ pids: [], emails: [], rows });
    const emails = found.flatMap((row) => row.emails.map(normalizedEmail));
    await addEmails(session, sql`SELECT unnest(${emails}::text[])`);
  }
}
