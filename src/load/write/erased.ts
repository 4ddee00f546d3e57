import { sql } from "kysely";
import type { Cell } from "../../schemas/convert.ts";
import { tableNamed } from "../../schemas/registry.ts";
import {
  bytesOf,
  createRowStore,
  decodePerson,
  decodeRows,
  type EncodedPerson,
  encodePerson,
  listGroups,
  PERSON_COLUMNS,
} from "../lookups/person-groups.ts";
import type { Db } from "../db/db.ts";
import type { Session } from "../db/session.ts";
import { normalizedEmail } from "../inputs/columns.ts";
import { type ErasureKey, readErasureKey } from "../erasure/key.ts";
import { clearedColumns, erasedSql, isOfSubject, mentionsSubject, namingOf } from "../erasure/subjects.ts";

/**
 * Deletes rows of erased people from a staging table `stage` with columns of a declared table, and clears columns that
 * name them. Returns the number of deleted rows.
 */
export async function removeErasedRows(
  session: Session,
  key: ErasureKey | null,
  { stage, table, columns }: Record<"stage" | "table", string> & { readonly columns: readonly string[] },
): Promise<number> {
  const naming = key && namingOf(tableNamed(table), columns);
  if (!naming) return 0;
  const rows = sql.raw(stage);
  const erased = erasedSql(session.names, key);
  const removed = await session.change(sql`DELETE FROM ${rows} AS t WHERE ${isOfSubject(erased, naming)}`);
  for (const { column, isCleared } of clearedColumns(erased, naming)) {
    await session.change(sql`UPDATE ${rows} AS t SET ${sql.id(column)} = NULL WHERE ${isCleared}`);
  }
  return removed;
}

/** Answer or reject of a lookup, as far as it may name people. */
export interface NamingAnswer {
  /** Hex. */
  readonly content: string;
  /** PID of the answer and PID of the request. */
  readonly pids: readonly (string | null)[];
  /** Addresses in the request. */
  readonly emails: readonly string[];
  /** The person of the answer; null without one. */
  readonly person: EncodedPerson | null;
  /** JSON texts. */
  readonly json: readonly Cell[];
}

/** Rest of an answer without erased people, or what of it is erased: the input row, or a person that it names. */
type KeptAnswer = Pick<NamingAnswer, "person" | "json"> | "row" | "person";

/**
 * Removes erased people from answers, in the same order: answers about them; in those about others, their addresses, relatives with
 * their PIDs, the PID of a spouse, and JSON that names them.
 */
export async function withoutErased(
  session: Session,
  key: ErasureKey,
  answers: readonly NamingAnswer[],
): Promise<readonly KeptAnswer[]> {
  const named = answers.map(namedBy);
  const erased = await findErased(session, key, named);
  return answers.map(({ content, pids, emails, person, json }, i) => {
    // Its answer may still be on disk.
    if (erased.contents.has(content)) return "row";
    const isErased =
      pids.some((pid) => pid !== null && erased.pids.has(pid)) ||
      emails.some((email) => erased.emails.has(normalizedEmail(email)));
    if (isErased) return "person";
    const isNamed = kinds.some((kind) => named[i]?.[kind].some((value) => erased[kind].has(value)));
    if (!isNamed) return { person, json };
    return {
      json: json.map((text) => (erased.json.has(text ?? "") ? null : text)),
      person: person && personWithout(person, erased),
    };
  });
}

const kinds = ["pids", "emails", "json", "contents"] as const;

/** Identifiers, JSON texts and contents (hex) that may name people; addresses are normalized. */
type Named = Readonly<Record<(typeof kinds)[number], string[]>>;

type Erased = Readonly<Record<keyof Named, ReadonlySet<string>>>;

async function findErased(
  session: Session,
  key: ErasureKey,
  named: readonly Partial<Named>[],
): Promise<Erased> {
  const is = erasedSql(session.names, key);
  const tests = {
    pids: is.pid("v"),
    emails: is.email("v"),
    json: mentionsSubject(is, "v::jsonb"),
    contents: is.content("decode(v, 'hex')"),
  };
  const found: { kind: keyof Erased; value: string }[] = await session.rows(
    sql.join(
      kinds.map((kind) => {
        const values = [...new Set(named.flatMap((one) => one[kind] ?? []))];
        return sql`SELECT ${sql.lit(kind)} AS kind, v AS value FROM unnest(${values}::text[]) AS u(v) WHERE ${tests[kind]}`;
      }),
      sql` UNION ALL `,
    ),
  );
  const of = (kind: keyof Erased) =>
    new Set(found.filter((one) => one.kind === kind).map(({ value }) => value));
  return { pids: of("pids"), emails: of("emails"), json: of("json"), contents: of("contents") };
}

export async function findErasedPids(
  session: Session,
  key: ErasureKey | null,
  pids: readonly string[],
): Promise<ReadonlySet<string>> {
  if (key === null || pids.length === 0) return new Set();
  return (await findErased(session, key, [{ pids: [...pids] }])).pids;
}

export async function readErasedPids(db: Db, pids: readonly string[]): Promise<ReadonlySet<string>> {
  return db.transaction(async (session) =>
    findErasedPids(session, await readErasureKey(session, db.readErasureSecret), pids),
  );
}

/** Positions of cells that may name people, in rows of a table. */
type NamingCells = Readonly<Record<"pids" | "emails" | "clears" | "json", readonly number[]>>;

/** The PID of the person itself is not among them. */
function namingCells(table: string, columns: readonly string[]): NamingCells {
  const naming = namingOf(tableNamed(table), columns);
  const at = (kind: keyof NamingCells) =>
    (naming?.[kind] ?? []).filter((name) => name !== "service_pid").map((name) => columns.indexOf(name));
  return { pids: at("pids"), emails: at("emails"), clears: at("clears"), json: at("json") };
}

/** By group of an encoded person. */
const cellsOfGroups: readonly NamingCells[] = [
  namingCells("person", PERSON_COLUMNS),
  ...listGroups.map(({ table, columns }) => namingCells(table, columns)),
];

const emailAt = (row: readonly Cell[], at: number) => normalizedEmail(row[at] ?? "");

function namedBy({ content, pids, emails, person, json }: NamingAnswer): Named {
  const named: Named = {
    contents: [content],
    pids: pids.filter((pid) => pid !== null),
    emails: emails.map(normalizedEmail),
    json: json.filter((text) => text !== null),
  };
  if (person === null) return named;
  for (const [group, cells] of cellsOfGroups.entries()) {
    const hasNames = cells.pids.length + cells.emails.length + cells.clears.length > 0;
    // Few rows have JSON, which is an object: others need not be decoded.
    if (!hasNames && !bytesOf(person, group).includes("{")) continue;
    for (const row of decodeRows(person, group)) {
      for (const at of [...cells.pids, ...cells.clears]) named.pids.push(row[at] ?? "");
      for (const at of cells.emails) named.emails.push(emailAt(row, at));
      for (const at of cells.json) if (row[at]) named.json.push(row[at]);
    }
  }
  return named;
}

/** Removes erased people from a person. Its hashes are the same as if the service had omitted them. */
function personWithout(person: EncodedPerson, erased: Erased): EncodedPerson {
  const isKept = ({ pids, emails }: NamingCells, row: readonly Cell[]) =>
    !pids.some((at) => erased.pids.has(row[at] ?? "")) &&
    !emails.some((at) => erased.emails.has(emailAt(row, at)));
  const cleared = <C extends Cell | undefined>({ clears, json }: NamingCells, row: readonly C[]) =>
    row.map((cell, at) => {
      const isNamed =
        (clears.includes(at) && erased.pids.has(cell ?? "")) ||
        (json.includes(at) && erased.json.has(cell ?? ""));
      return isNamed ? null : cell;
    });
  const [ofPerson, ...ofLists] = cellsOfGroups;
  const { scalars, extra, lists, servicePid } = decodePerson(person);
  // Stored as in `cellsOfGroups`.
  const [, ...cells] = ofPerson ? cleared(ofPerson, [servicePid, ...scalars, extra]) : [];
  return encodePerson(
    {
      servicePid,
      scalars: cells.slice(0, -1),
      extra: cells.at(-1),
      lists: lists.map((list, i) => {
        const naming = ofLists[i];
        if (!list || !naming) return list;
        return { rows: list.rows.filter((row) => isKept(naming, row)).map((row) => cleared(naming, row)) };
      }),
    },
    createRowStore(1024),
  );
}
