import { type RawBuilder, sql } from "kysely";
import type { Db } from "../db/db.ts";
import { type Session, withRolePath } from "../db/session.ts";
import { type Identifiers, inputDefinition, type InputSource, type NamingRow } from "../inputs/input.ts";
import { findRows } from "../inputs/read.ts";
import { normalizedAddress, normalizedEmail } from "../inputs/columns.ts";
import {
  addIdentifiers,
  addSubjects,
  type FoundPeople,
  stagedSql,
  stagedSubjects,
  stageSubjects,
  type SubjectKind,
} from "./subjects.ts";

interface SearchedInput {
  readonly input: InputSource;
  readonly find: (wanted: Partial<Identifiers>) => Promise<readonly NamingRow[]>;
}

const NOBODY: Identifiers = { pids: [], emails: [], rows: [] };

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
    const searched = inputs.map(
      (input): SearchedInput => ({
        input,
        find: (some) => {
          const wanted = { ...NOBODY, ...some };
          const foreign = db.foreignOf(input);
          if (foreign) return foreign.findRows(input, wanted);
          // In this session: behind a pooler there may be no other connection.
          return withRolePath(session, () => session.readOnly(() => findRows(session, input, wanted)));
        },
      }),
    );
    await stageSubjects(session, named);
    const inputRows = sparesOthers ? 0 : await searchInputs(session, searched);
    for (const input of inputs) await addFormerNames(session, input);
    const seed = await stagedSubjects(session);
    const added = await followStaged(session, sparesOthers);
    if (!sparesOthers) {
      const { rows } = await stagedSubjects(session);
      for (const { find } of searched)
        await addIdentifiers(session, { ...NOBODY, emails: emailsOf(await find({ rows })) });
    }
    const stored = await removeShared(session, seed.emails);
    const shared = [...stored, ...(await removeSharedInInputs(session, searched, seed.emails, sparesOthers))];
    const people = await stagedSubjects(session);
    return { people, sharedEmails: shared.toSorted(), seed, sparesOthers, isKnown: inputRows + added > 0 };
  });
}

/** Stages the subjects of a request in its own transaction: as found before, with what the tables have by now. */
export async function stageFound(
  session: Session,
  { people, seed, sparesOthers, sharedEmails }: FoundPeople,
): Promise<void> {
  // Where others are spared, only the inputs, read before, show what they have.
  if (sparesOthers) return stageSubjects(session, people);
  await stageSubjects(session, seed);
  await followStaged(session, false);
  await addIdentifiers(session, people);
  await removeShared(session, seed.emails);
  await removeStaged(session, "email", sharedEmails);
}

/** Adds all identifiers of the staged people from the tables; returns the number of new ones. */
async function followStaged(session: Session, sparesOthers: boolean): Promise<number> {
  const inputEmail = sql`${session.table("input_email")} AS e`;
  const personEmail = sql`${session.table("person_email")} AS e`;
  const address = sql.raw(normalizedAddress("e.email_address"));
  const hasAddress = stagedSql.email("e.email_address");
  let added = 0;
  const add = async (kind: SubjectKind, query: RawBuilder<unknown>) => {
    added += await addSubjects(session, kind, query);
  };
  await add("row", sql`SELECT source, source_key FROM ${inputEmail} WHERE ${hasAddress}`);
  added += await addPidsOfRows(session);
  await add("pid", sql`SELECT service_pid FROM ${personEmail} WHERE ${hasAddress}`);
  // The jacket is all that is known of a contact's addresses.
  await add(
    "pid",
    sql`SELECT service_pid FROM ${session.table("contact_job_result")} WHERE EXISTS (
    SELECT FROM jsonb_path_query(jacket, 'strict $.** ? (@.type() == "string" && @ like_regex "@")') AS v(value)
    WHERE ${stagedSql.email("(v.value #>> '{}')")})`,
  );
  if (sparesOthers) await sparePids(session);
  await addAliases(session);
  if (sparesOthers) await sparePids(session);
  else {
    const answered = sql`${answeredRows(session)} AS a`;
    await addSubjects(
      session,
      "row",
      sql`SELECT source, source_key FROM ${answered} WHERE ${stagedSql.pid("a.pid")}`,
    );
  }
  await add("email", sql`SELECT ${address} FROM ${personEmail} WHERE ${stagedSql.pid("e.service_pid")}`);
  await add(
    "email",
    sql`SELECT ${address} FROM ${inputEmail} WHERE ${stagedSql.row("e.source", "e.source_key")}`,
  );
  return added;
}

/** Rows `source, source_key, pid` of each PID that an input row was answered with. */
function answeredRows(session: Session): RawBuilder<unknown> {
  const parts = ["resolution", "enrichment"].flatMap((answers) =>
    ["service_pid", "last_matched_service_pid"].map(
      (pid) => sql`SELECT source, source_key, ${sql.id(pid)} AS pid FROM ${session.table(answers)}`,
    ),
  );
  return sql`(${sql.join(parts, sql` UNION ALL `)})`;
}

/** Adds the PIDs that staged input rows were answered with; returns the number of new ones. */
export function addPidsOfRows(session: Session): Promise<number> {
  return addSubjects(
    session,
    "pid",
    sql`SELECT a.pid FROM ${answeredRows(session)} AS a JOIN pg_temp.erased_row AS r USING (source, source_key)`,
  );
}

async function addAliases(session: Session): Promise<void> {
  const alias = session.table("person_pid_alias");
  for (let step = 0; step < MOST_ALIASES; step++) {
    const added = await addSubjects(
      session,
      "pid",
      sql`SELECT returned_service_pid FROM ${alias} WHERE ${stagedSql.pid("sent_service_pid")}
        UNION SELECT sent_service_pid FROM ${alias} WHERE ${stagedSql.pid("returned_service_pid")}`,
    );
    if (added === 0) return;
  }
}

/** Removes PIDs that other input rows were answered with. */
export async function sparePids(session: Session): Promise<void> {
  await session.change(sql`DELETE FROM pg_temp.erased_pid AS p USING ${answeredRows(session)} AS a
    WHERE a.pid = p.pid AND NOT ${stagedSql.row("a.source", "a.source_key")}`);
}

/** Removes addresses that other stored rows or people have too, except those to keep; returns them. */
function removeShared(session: Session, keep: readonly string[]): Promise<readonly string[]> {
  const address = sql.raw(normalizedAddress("o.email_address"));
  return session.pluck<string>(sql`
    DELETE FROM pg_temp.erased_email AS m WHERE m.email <> ALL(${[...keep]}::text[]) AND (
      m.email IN (SELECT ${address} FROM ${session.table("input_email")} AS o
        WHERE NOT coalesce(${stagedSql.row("o.source", "o.source_key")}, false))
      OR m.email IN (SELECT ${address} FROM ${session.table("person_email")} AS o
        WHERE NOT coalesce(${stagedSql.pid("o.service_pid")}, false)))
    RETURNING m.email`);
}

async function removeStaged(
  session: Session,
  kind: "pid" | "email",
  texts: readonly string[],
): Promise<void> {
  await session.change(
    sql`DELETE FROM ${sql.id("pg_temp", `erased_${kind}`)} WHERE ${sql.id(kind)} = ANY(${[...texts]}::text[])`,
  );
}

const emailsOf = (rows: readonly NamingRow[]) => rows.flatMap(({ emails }) => emails.map(normalizedEmail));

/** Adds input rows with a staged key, address or PID, and their PIDs; returns the number of rows. */
async function searchInputs(session: Session, inputs: readonly SearchedInput[]): Promise<number> {
  const staged = await stagedSubjects(session);
  let count = 0;
  for (const { input, find } of inputs) {
    const found = await find(staged);
    count += found.length;
    const rows = found.flatMap(({ sourceKey }) =>
      sourceKey === null ? [] : [{ source: input.name, sourceKey }],
    );
    await addIdentifiers(session, { rows, pids: found.flatMap(({ pids }) => pids), emails: [] });
  }
  return count;
}

async function addFormerNames(session: Session, input: InputSource): Promise<void> {
  await addSubjects(
    session,
    "row",
    sql`SELECT j.source, r.source_key FROM pg_temp.erased_row AS r, ${session.table("lookup_job")} AS j
      WHERE r.source = ${input.name} AND j.input_definition = ${inputDefinition(input)}`,
  );
}

/** Removes addresses that other input rows have too, except those to keep, and PIDs if others are spared. Returns the addresses. */
async function removeSharedInInputs(
  session: Session,
  inputs: readonly SearchedInput[],
  keep: readonly string[],
  sparesOthers: boolean,
): Promise<readonly string[]> {
  const { pids, emails, rows } = await stagedSubjects(session);
  const wanted = { emails: emails.filter((email) => !keep.includes(email)), pids: sparesOthers ? pids : [] };
  const others: NamingRow[] = [];
  for (const { input, find } of inputs) {
    const own = new Set<string | null>(
      rows.flatMap(({ source, sourceKey }) => (source === input.name ? [sourceKey] : [])),
    );
    others.push(...(await find(wanted)).filter(({ sourceKey }) => !own.has(sourceKey)));
  }
  const theirs = new Set(emailsOf(others));
  const shared = wanted.emails.filter((email) => theirs.has(email));
  await removeStaged(session, "email", shared);
  if (sparesOthers)
    await removeStaged(
      session,
      "pid",
      others.flatMap((row) => row.pids),
    );
  return shared;
}

/**
 * Removes what is due and what was answered for the staged subjects, before their rows of `lookup_row`: the contents of their input
 * rows that no other row has (left in `pg_temp.erased_content`), records that name them, and answers with their PIDs.
 */
export async function removeLookupState(session: Session): Promise<void> {
  const row = session.table("lookup_row");
  const isTheirs = sql`((r.source, r.source_key) IN (SELECT source, source_key FROM pg_temp.erased_row) OR ${stagedSql.email("r.source_key")})`;
  // The content of a validation is an address.
  const isErased = sql`(t.content IN (SELECT content FROM pg_temp.erased_content) OR ${stagedSql.pid("t.sent_service_pid")}
    OR CASE WHEN t.kind LIKE 'validate_emails:%' THEN ${stagedSql.email("convert_from(t.content, 'UTF8')")} ELSE false END)`;
  await session.client.query(
    "CREATE TEMP TABLE IF NOT EXISTS erased_content (content bytea PRIMARY KEY) ON COMMIT DROP; TRUNCATE pg_temp.erased_content",
  );
  await session.change(sql`INSERT INTO pg_temp.erased_content SELECT DISTINCT r.content FROM ${row} AS r
    WHERE r.content IS NOT NULL AND ${isTheirs}`);
  await session.change(
    sql`DELETE FROM pg_temp.erased_content AS c USING ${row} AS r WHERE r.content = c.content AND NOT ${isTheirs}`,
  );
  await session.change(sql`DELETE FROM ${session.table("lookup_due")} AS t
    WHERE ${isErased} OR CASE WHEN t.record LIKE '{%' THEN ${stagedSql.pid("(t.record::json ->> 'service_pid')")}
      OR EXISTS (SELECT FROM json_array_elements_text(t.record::json -> 'emails') AS e(e) WHERE ${stagedSql.email("e.e")}) ELSE false END`);
  await session.change(
    sql`DELETE FROM ${session.table("lookup_answer")} AS t WHERE ${isErased} OR ${stagedSql.pid("t.service_pid")}`,
  );
}
