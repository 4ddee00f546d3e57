import { type RawBuilder, sql } from "kysely";
import { quoteIdentifier, quoteLiteral, type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { ErasureKey } from "./key.ts";
import type { Identifiers } from "../inputs/input.ts";
import { normalizedAddress, normalizedEmail } from "../inputs/columns.ts";
import { tables } from "../../schemas/registry.ts";
import type { NamesPeople, Table } from "../../schemas/table.ts";

/** SQL conditions for the subjects of erasures; false for null. Arguments are expressions. */
interface SubjectSql {
  pid(expression: string): RawBuilder<unknown>;
  /** Ignores blanks around the address, and the case of A to Z. */
  email(expression: string): RawBuilder<unknown>;
  row(source: string, sourceKey: string): RawBuilder<unknown>;
  /** Condition without which a text contains no PID or address of a subject; quick, where the subjects are known. */
  within?(text: string): RawBuilder<unknown>;
}

/** Conditions for everyone who was erased. */
export interface ErasedSql extends SubjectSql {
  /** Condition for the key of a row of one input. */
  sourceKey(source: string, expression: string): RawBuilder<unknown>;
  /** Condition for the content of a row that was erased: the record would be the same. */
  content(expression: string): RawBuilder<unknown>;
}

/** Compares keyed hashes, computed with sha256 alone, which every Postgres has. */
export function erasedSql(names: SchemaNames, key: ErasureKey): ErasedSql {
  const isErased = (text: string) => sql`coalesce(
    ${hashOf(key, text)} IN (SELECT subject_hash FROM ${tableId(names, "erasure_subject")}), false)`;
  return {
    pid: (expression) => isErased(hashedText.pid(expression)),
    email: (expression) => isErased(hashedText.email(expression)),
    row: (source, sourceKey) => isErased(hashedText.row(source, sourceKey)),
    content: (expression) => isErased(hashedText.content(expression)),
    sourceKey: (source, expression) => isErased(hashedText.row(quoteLiteral(source), expression)),
  };
}

/** Texts of subjects before hashing, as SQL expressions. */
const hashedText = {
  pid: (expression: string) => `'pid:' || ${expression}`,
  email: (expression: string) => `'email:' || ${normalizedAddress(expression)}`,
  content: (expression: string) => `'content:' || encode(${expression}, 'hex')`,
  row: (source: string, sourceKey: string) =>
    `'source_key:' || octet_length(${source}) || ':' || ${source} || ':' || ${sourceKey}`,
};

/** HMAC-SHA256 of a text. */
function hashOf(key: ErasureKey, text: string): RawBuilder<unknown> {
  return sql`sha256(${key.outer}::bytea || sha256(${key.inner}::bytea || convert_to(${sql.raw(text)}, 'UTF8')))`;
}

export function anyOf(tests: readonly RawBuilder<unknown>[]): RawBuilder<unknown> {
  return tests.length === 0 ? sql`false` : sql`(${sql.join(tests, sql` OR `)})`;
}

/** Characters that end an address, besides blanks; those of the second list only in a local part within a URL or a sentence. */
const NEVER_IN_ADDRESS = String.raw`\s"(),:;<>@\[\\\]`;
const RARELY_IN_ADDRESS = String.raw`!#$&'*/=?^\x60{|}~`;
const DOMAIN_PART = `[^${NEVER_IN_ADDRESS}${RARELY_IN_ADDRESS}.%+]+`;
const DOMAIN = `${DOMAIN_PART}(?:[.]${DOMAIN_PART})*`;

/**
 * Patterns of what may be an identifier within a text. The second of each finds a shorter one within the first, so that both
 * `o'neil@x` and `?to=a@x` are found.
 */
const [WIDE_EMAIL = "", EMAIL = ""] = [NEVER_IN_ADDRESS, NEVER_IN_ADDRESS + RARELY_IN_ADDRESS].map(
  (ends) => `[^${ends}]+@${DOMAIN}`,
);

const [WIDE_PID, PID] = ["p-[0-9A-Za-z_-]+", "p-[0-9A-Za-z]+"];
const ESCAPE = String.raw`\\(?:u[0-9a-f]{4}|.)`;

/** Query for what may be an identifier in the text `j`. */
const FOUND = sql.join(
  [
    { isPid: true, wide: WIDE_PID, narrow: PID },
    { isPid: false, wide: WIDE_EMAIL, narrow: EMAIL },
  ].map(
    ({ isPid, wide, narrow }) => sql`
      SELECT ${sql.lit(isPid)}, v.v FROM regexp_matches(j.text, ${wide}, 'g') AS m(m)
      CROSS JOIN LATERAL (VALUES (m.m[1]), (substring(m.m[1] FROM ${narrow}))) AS v(v)`,
  ),
  sql` UNION ALL `,
);

/**
 * Condition for a JSON value with a subject anywhere in its text: as a value or key, within a sentence, a list or a URL.
 * Only hashes of earlier subjects are known, so their texts are cut out by patterns. It doesn't find PIDs in another form than `p-…`,
 * addresses with quoted local parts or blanks, and what is encoded (other than `%40`) or interrupted.
 */
export function mentionsSubject(is: SubjectSql, json: string): RawBuilder<unknown> {
  const text = sql.raw(`${json}::text`);
  const plain = sql`CASE WHEN strpos(${text}, ${"\\"}) = 0 THEN ${text} ELSE regexp_replace(${text}, ${ESCAPE}, ' ', 'g') END`;
  return sql`(${sql.raw(json)} IS NOT NULL AND EXISTS (
    SELECT FROM (SELECT replace(${plain}, '%40', '@') OFFSET 0) AS j(text)
    CROSS JOIN LATERAL (${FOUND}) AS i(is_pid, value)
    WHERE ${is.within?.("j.text") ?? sql`true`}
      AND CASE WHEN i.is_pid THEN ${is.pid("i.value")} ELSE ${is.email("i.value")} END))`;
}

/** Columns of a table that may name people; see {@link NamesPeople}. */
export interface NamingTable extends Required<Pick<NamesPeople, "pids" | "emails" | "clears">> {
  readonly table: Table;
  /** JSON columns, all of which are searched. */
  readonly json: readonly string[];
  readonly isOfInputRow: boolean;
  readonly isListOfPerson: boolean;
}

/** Returns what a declared table, or some of its columns, says about people; null if an erasure has nothing to do there. */
export function namingOf(table: Table, columns?: readonly string[]): NamingTable | null {
  if (table.people === "kept") return null;
  const own = (names: readonly string[] = []) => names.filter((name) => columns?.includes(name) ?? true);
  const named: NamesPeople = typeof table.people === "string" ? {} : (table.people ?? {});
  // The ops schema holds no personal data.
  const json = table.columns.filter(({ type }) => type === "json" && table.schema === "data");
  const naming = {
    table,
    pids: own(named.pids),
    emails: own(named.emails),
    clears: own(named.clears),
    json: own(json.map(({ name }) => name)),
    isOfInputRow: named.isOfInputRow === true && own(["source", "source_key"]).length === 2,
    isListOfPerson: named.isListOfPerson === true,
  };
  const { pids, emails, clears } = naming;
  const hasNames = [...pids, ...emails, ...clears, ...naming.json].length > 0 || naming.isOfInputRow;
  return hasNames ? naming : null;
}

export const namingTables: readonly NamingTable[] = tables.flatMap((table) => namingOf(table) ?? []);

const at = (name: string) => `t.${quoteIdentifier(name)}`;

/** Condition for rows `t` of a table that are a subject's, or about one: an erasure removes them. */
export function isOfSubject(is: SubjectSql, naming: NamingTable): RawBuilder<unknown> {
  const { pids, emails, json, isOfInputRow } = naming;
  const own = [
    ...(isOfInputRow ? [is.row("t.source", "t.source_key")] : []),
    ...pids.map((name) => is.pid(at(name))),
    ...emails.map((name) => is.email(at(name))),
  ];
  // Without a PID, only its JSON says whose the row is.
  const hasOnlyJson = !isOfInputRow && emails.length === 0 && pids.length > 0 && json.length > 0;
  const isNobodys = pids.map((name) => sql`${sql.raw(at(name))} IS NULL AND `);
  const mentions = anyOf(json.map((name) => mentionsSubject(is, at(name))));
  return anyOf(hasOnlyJson ? [...own, sql`(${sql.join(isNobodys, sql``)}${mentions})`] : own);
}

/** Columns of rows `t` that become null where they name a subject, each with its condition. */
export function clearedColumns(
  is: SubjectSql,
  { clears, json }: NamingTable,
): readonly { readonly column: string; readonly isCleared: RawBuilder<unknown> }[] {
  return [
    ...clears.map((column) => ({ column, isCleared: is.pid(at(column)) })),
    ...json.map((column) => ({ column, isCleared: mentionsSubject(is, at(column)) })),
  ];
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

export type RowsByTable = Readonly<Record<string, number>>;

/** Fills temporary tables of this transaction with identifiers: `erased_pid`, `erased_email`, `erased_row`. */
export async function stageSubjects(session: Session, people: Identifiers): Promise<void> {
  await session.client.query(`DROP TABLE IF EXISTS pg_temp.erased_pid, pg_temp.erased_email, pg_temp.erased_row;
    CREATE TEMP TABLE erased_pid (pid text PRIMARY KEY) ON COMMIT DROP;
    CREATE TEMP TABLE erased_email (email text PRIMARY KEY) ON COMMIT DROP;
    CREATE TEMP TABLE erased_row (source text, source_key text, PRIMARY KEY (source, source_key)) ON COMMIT DROP`);
  await addIdentifiers(session, people);
}

const stagedColumns = { pid: ["pid"], email: ["email"], row: ["source", "source_key"] } as const;

/** Kind of identifier, and end of the name of its temporary table. */
export type SubjectKind = keyof typeof stagedColumns;

/** Adds the identifiers of a query, except nulls, blank ones and known ones; returns the number of new ones. */
export function addSubjects(
  session: Session,
  kind: SubjectKind,
  query: RawBuilder<unknown>,
): Promise<number> {
  const columns = sql.join(stagedColumns[kind].map((name) => sql.id(name)));
  return session.change(sql`INSERT INTO ${sql.id("pg_temp", `erased_${kind}`)}
    SELECT DISTINCT ${columns} FROM (${query}) AS found(${columns})
    WHERE found IS NOT NULL AND ${sql.id(stagedColumns[kind][0])} <> '' ON CONFLICT DO NOTHING`);
}

export async function addIdentifiers(session: Session, { pids, emails, rows }: Identifiers): Promise<void> {
  await addSubjects(session, "pid", sql`SELECT unnest(${[...pids]}::text[])`);
  await addSubjects(session, "email", sql`SELECT unnest(${emails.map(normalizedEmail)}::text[])`);
  const list = sql`json_to_recordset(${JSON.stringify(rows)}::json) AS r(source text, "sourceKey" text)`;
  await addSubjects(session, "row", sql`SELECT * FROM ${list}`);
}

export function stagedSubjects(session: Session): Promise<Identifiers> {
  return session.one<Identifiers>(sql`
    SELECT ARRAY(SELECT pid FROM pg_temp.erased_pid ORDER BY 1) AS pids, ARRAY(SELECT email FROM pg_temp.erased_email ORDER BY 1) AS emails,
      (SELECT coalesce(json_agg(json_build_object('source', source, 'sourceKey', source_key) ORDER BY source, source_key), '[]')
        FROM pg_temp.erased_row) AS rows`);
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

/** Queries for the kind and hash of each staged subject. */
const stagedHashes = (key: ErasureKey) => [
  sql`SELECT 'pid' AS kind, ${hashOf(key, hashedText.pid("pid"))} AS hash FROM pg_temp.erased_pid`,
  sql`SELECT 'email', ${hashOf(key, hashedText.email("email"))} FROM pg_temp.erased_email`,
  sql`SELECT 'source_key', ${hashOf(key, hashedText.row("source", "source_key"))} FROM pg_temp.erased_row`,
];

/** Instant by which all staged subjects were named in erasures that removed rows, of whomever; null if one of them wasn't. */
export async function stagedErasedAt(session: Session, key: ErasureKey): Promise<string | null> {
  const [erased = null] = await session.pluck<string | null>(sql`
    SELECT CASE WHEN bool_and(e.at IS NOT NULL) THEN max(e.at) END
    FROM (${sql.join(stagedHashes(key), sql` UNION ALL `)}) AS s
    CROSS JOIN LATERAL (SELECT min(requested_at) AS at FROM ${session.table("erasure_subject")}
      WHERE subject_hash = s.hash AND rows_removed > 0) AS e`);
  return erased;
}

/** Stores the hashes of the staged subjects and of the contents of their rows, and a tombstone for each PID and row. */
export async function storeSubjects(session: Session, key: ErasureKey, erasureId: string): Promise<void> {
  const subjects = [
    ...stagedHashes(key),
    sql`SELECT 'content', ${hashOf(key, hashedText.content("content"))} FROM pg_temp.erased_content`,
  ];
  await session.change(sql`
    INSERT INTO ${session.table("erasure_subject")}
      (erasure_id, kind, subject_hash, key_id, requested_at, rows_removed, _synced_at, _run_id)
    SELECT ${erasureId}::uuid, kind, hash, ${key.id}, now(), 0, now(), ${erasureId}
    FROM (${sql.join(subjects, sql` UNION ALL `)}) AS s ORDER BY hash ON CONFLICT DO NOTHING`);
  await session.change(sql`
    INSERT INTO ${session.table("tombstone")}
      (tombstone_id, service_pid, source, source_key, erased_at, _synced_at, _run_id)
    SELECT gen_random_uuid(), pid, source, source_key, now(), now(), ${erasureId} FROM (
      SELECT pid, NULL AS source, NULL AS source_key FROM pg_temp.erased_pid
      UNION ALL SELECT NULL, source, source_key FROM pg_temp.erased_row) AS s`);
}
