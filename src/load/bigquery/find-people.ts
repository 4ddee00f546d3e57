import { type RawBuilder, sql } from "kysely";
import type { FoundPeople, KnownBy, RowKey } from "../erasure-warehouse.ts";
import type { NamingRow } from "../foreign-database.ts";
import { normalizedEmail } from "../subject-hash.ts";
import type { InputSource } from "../warehouse.ts";
import { type DatasetNames, tableText } from "./names.ts";
import {
  addEmails,
  addPids,
  addRows,
  dropPeople,
  emailsQuery,
  isStagedEmail,
  isStagedPid,
  isStagedRow,
  pidsQuery,
  rowsQuery,
  stagedPeople,
  type StagedRow,
  stagePeople,
} from "./people-tables.ts";
import type { Session } from "./session.ts";
import { normalizedAddress } from "./suppression.ts";

/** PIDs of one person can have taken each other's place; more often than this nobody follows them. */
const MOST_ALIASES = 10;

/** Variables of {@link followStaged}. */
export const followVariables: readonly RawBuilder<unknown>[] = [
  sql`_etl_added INT64 DEFAULT 1`,
  sql`_etl_step INT64 DEFAULT 0`,
];

const raw = (text: string) => sql.raw(text);

/** An input, and how rows of it are found that name somebody. */
export interface SearchedInput {
  readonly input: InputSource;
  readonly find: (wanted: KnownBy) => Promise<readonly NamingRow[]>;
}

/**
 * Follows what is named to the people, and from them to all that they are known by: rows and addresses lead to PIDs, PIDs to
 * rows and addresses, and no further, since families share addresses.
 */
export async function findPeople(
  session: Session,
  named: KnownBy,
  inputs: readonly SearchedInput[],
  sparesOthers: boolean,
): Promise<FoundPeople> {
  const { names } = session;
  const seed = await searchInputs({ ...named, emails: named.emails.map(normalizedEmail) }, inputs);
  const stored = await staged(session, [...stagePeople(seed), ...followStaged(names, sparesOthers)]);
  const emails = await addressesOfRows(stored.rows, inputs);
  const statements = [
    ...stagePeople({ ...stored, emails: [...stored.emails, ...emails] }),
    ...(sparesOthers ? spareEmails(names) : []),
  ];
  return { people: await staged(session, statements), seed, sparesOthers };
}

/** What some statements leave staged. */
async function staged(session: Session, statements: readonly RawBuilder<unknown>[]): Promise<KnownBy> {
  const rows = await session.script(
    [
      ...followVariables.map((variable) => sql`DECLARE ${variable}`),
      ...statements,
      sql`CREATE TEMP TABLE erased_all AS ${stagedPeople}`,
      ...dropPeople,
    ],
    sql<StagedRow>`SELECT * FROM erased_all ORDER BY kind, a, b`,
  );
  return knownBy(rows);
}

function knownBy(rows: readonly StagedRow[]): KnownBy {
  const textsOf = (kind: StagedRow["kind"]) => rows.flatMap((row) => (row.kind === kind ? row.a : []));
  return {
    pids: textsOf("pid"),
    emails: textsOf("email"),
    rows: rows.flatMap(({ kind, a, b }) => (kind === "row" && b !== null ? { source: a, sourceKey: b } : [])),
  };
}

/** Statements that stage what is stored by now of people who were found, beside what was found then. */
export function findAgain(
  names: DatasetNames,
  { people, seed, sparesOthers }: FoundPeople,
): readonly RawBuilder<unknown>[] {
  return [
    ...stagePeople(seed),
    ...followStaged(names, sparesOthers),
    // An input says the same of the same rows, and is not read again while others wait.
    addRows(rowsQuery(people.rows)),
    addEmails(emailsQuery(people.emails)),
    ...(sparesOthers ? spareEmails(names) : [addPids(pidsQuery(people.pids))]),
  ];
}

/** Statements that add all that the staged people are known by here, but for addresses in inputs. */
function followStaged(names: DatasetNames, sparesOthers: boolean): readonly RawBuilder<unknown>[] {
  const table = (name: string) => tableText(names, "data", name);
  const alias = table("person_pid_alias");
  return [
    addRows(
      raw(
        `SELECT e.source, e.source_key FROM ${table("input_email")} AS e WHERE ${isStagedEmail("e.email_address")}`,
      ),
    ),
    addPids(
      raw(`${answeredPids(names, isStagedRow("a"))}
        UNION ALL SELECT m.service_pid FROM ${table("person_email")} AS m WHERE ${isStagedEmail("m.email_address")}`),
    ),
    ...(sparesOthers ? [sparePids(names)] : []),
    sql`WHILE _etl_added > 0 AND _etl_step < ${raw(String(MOST_ALIASES))} DO
      ${addPids(
        raw(`SELECT s.returned_service_pid AS pid FROM ${alias} AS s WHERE ${isStagedPid("s.sent_service_pid")}
          UNION ALL SELECT r.sent_service_pid FROM ${alias} AS r WHERE ${isStagedPid("r.returned_service_pid")}`),
      )};
      SET _etl_added = @@row_count;
      SET _etl_step = _etl_step + 1;
    END WHILE`,
    sparesOthers ? sparePids(names) : addRowsOfPids(names),
    addEmails(
      raw(`SELECT ${normalizedAddress("m.email_address")} AS email FROM ${table("person_email")} AS m
          WHERE ${isStagedPid("m.service_pid")}
        UNION ALL SELECT ${normalizedAddress("e.email_address")} FROM ${table("input_email")} AS e WHERE ${isStagedRow("e")}`),
    ),
  ];
}

/** A query for the PIDs of answers `a`. */
function answeredPids(names: DatasetNames, condition: string): string {
  const of = (table: string) => `SELECT pid FROM ${tableText(names, "data", table)} AS a,
    UNNEST([a.service_pid, a.last_matched_service_pid]) AS pid WHERE ${condition}`;
  return `${of("resolution")} UNION ALL ${of("enrichment")}`;
}

/** Adds the rows that have been answered with a staged PID. */
export function addRowsOfPids(names: DatasetNames): RawBuilder<unknown> {
  const of = (table: string) => `SELECT a.source, a.source_key FROM ${tableText(names, "data", table)} AS a
    WHERE ${isStagedPid("a.service_pid")} OR ${isStagedPid("a.last_matched_service_pid")}`;
  return addRows(raw(`${of("resolution")} UNION ALL ${of("enrichment")}`));
}

/** Leaves out PIDs that rows of others have been answered with. */
function sparePids(names: DatasetNames): RawBuilder<unknown> {
  const others = answeredPids(names, `NOT ${isStagedRow("a")}`);
  return raw(
    `DELETE FROM erased_pid WHERE pid IN (SELECT o.pid FROM (${others}) AS o WHERE o.pid IS NOT NULL)`,
  );
}

/** Leaves out addresses that rows or PIDs of others have too. */
function spareEmails(names: DatasetNames): readonly RawBuilder<unknown>[] {
  const table = (name: string) => tableText(names, "data", name);
  return [
    raw(`DELETE FROM erased_email WHERE email IN (
      SELECT ${normalizedAddress("e.email_address")} FROM ${table("input_email")} AS e WHERE NOT ${isStagedRow("e")}
      UNION ALL SELECT ${normalizedAddress("m.email_address")} FROM ${table("person_email")} AS m
        WHERE m.service_pid NOT IN (SELECT known.pid FROM erased_pid AS known))`),
  ];
}

/** Adds the rows of the inputs that hold a named key, address or PID, and the PIDs that they have. */
async function searchInputs(named: KnownBy, inputs: readonly SearchedInput[]): Promise<KnownBy> {
  const rows = [...named.rows];
  const pids = [...named.pids];
  for (const { input, find } of inputs) {
    for (const row of await find(named)) {
      if (row.sourceKey !== null) rows.push({ source: input.name, sourceKey: row.sourceKey });
      pids.push(...row.pids);
    }
  }
  return { ...named, rows, pids };
}

/** The addresses that rows have in their inputs. */
async function addressesOfRows(
  rows: readonly RowKey[],
  inputs: readonly SearchedInput[],
): Promise<readonly string[]> {
  const emails: string[] = [];
  for (const { find } of inputs) {
    const found = await find({ pids: [], emails: [], rows });
    emails.push(...found.flatMap((row) => row.emails));
  }
  return emails;
}
