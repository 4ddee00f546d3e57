import { type RawBuilder, sql } from "kysely";
import type pg from "pg";
import { codeOf, type Problem } from "../../errors.ts";
import { quoteIdentifier, quoteLiteral, quoteQualified } from "../db/names.ts";
import { inTransaction, type PostgresSession } from "../db/session.ts";
import {
  columnProblems,
  fingerprintColumns,
  fingerprintScope,
  partsOf,
  queryStages,
  unreadable,
  unselectable,
} from "./columns.ts";
import { grantHint, missingTableHint } from "./missing-table.ts";
import {
  type InputColumn,
  type InputSource,
  type KeySet,
  type MappedColumn,
  type InputQuery,
  relationText,
  selectRows,
} from "./input.ts";

/** Columns that a primary key or unique index makes unique together. */
export interface UniqueKey {
  readonly columns: readonly string[];
  readonly isPrimary: boolean;
  /** True if a column can be NULL, which such an index allows in any number of rows. */
  readonly isNullable: boolean;
}

/**
 * JSON array of a table's {@link UniqueKey}s, the primary key first. Empty for a table with children by inheritance, because
 * its rows include theirs, which the index doesn't cover.
 */
export function uniqueKeysSql(table: RawBuilder<unknown>): RawBuilder<readonly UniqueKey[]> {
  return sql`(
    SELECT coalesce(json_agg(json_build_object('columns', k.columns, 'isPrimary', i.indisprimary, 'isNullable', k.is_nullable)
      ORDER BY i.indisprimary DESC, i.indnkeyatts, i.indexrelid), '[]')
    FROM pg_catalog.pg_index AS i CROSS JOIN LATERAL (
      SELECT json_agg(a.attname ORDER BY u.place) AS columns, bool_or(NOT a.attnotnull) AS is_nullable
      FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS u(attnum, place)
        JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = u.attnum
      WHERE u.place <= i.indnkeyatts) AS k
    WHERE i.indrelid = ${table} AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits AS h JOIN pg_catalog.pg_class AS p ON p.oid = h.inhparent
        WHERE h.inhparent = i.indrelid AND p.relkind <> 'p'))`;
}

/** Unique keys of an input's table; none for a query. */
export async function readUniqueKeys(
  session: PostgresSession,
  { relation }: Pick<InputSource, "relation">,
): Promise<readonly UniqueKey[]> {
  if (!("table" in relation)) return [];
  const table = sql`${quoteQualified(relation.table)}::regclass`;
  const [keys = []] = await session.pluck<readonly UniqueKey[]>(sql`SELECT ${uniqueKeysSql(table)}`);
  return keys;
}

/** True if these columns contain a unique key. */
export function containsUniqueKey(columns: readonly string[], keys: readonly UniqueKey[]): boolean {
  return keys.some((key) => key.columns.every((column) => columns.includes(column)));
}

/** Queries the input's columns; throws errors of the database unchanged. */
export async function describeColumns(
  session: PostgresSession,
  input: InputSource,
): Promise<readonly InputColumn[]> {
  const fields = await session.columns(
    sql.raw(`SELECT input_row.* FROM ${relationText(input, quoteQualified)} LIMIT 0`),
  );
  const oids = [...new Set(fields.map(({ oid }) => oid))];
  const described = await session.rows<{ oid: number; name: string; category: string }>(sql`
    SELECT oid::int AS oid, format_type(oid, NULL) AS name, typcategory AS category
    FROM pg_catalog.pg_type WHERE oid = ANY(${oids})`);
  return fields.map((field) => {
    const type = described.find((d) => d.oid === field.oid);
    return { name: field.name, typeName: type?.name ?? "unknown", isArray: type?.category === "A" };
  });
}

/** Column names of a quoted query are case-sensitive. */
export function finderOf(columns: readonly InputColumn[]) {
  return (name: string) => columns.find((c) => c.name === name);
}

function keyText(column: string, columns: readonly InputColumn[]): string {
  const quoted = `input_row.${quoteIdentifier(column)}`;
  const typeName = columns.find((c) => c.name === column)?.typeName;
  return typeName === "numeric" ? `trim_scale(${quoted})::text` : `${quoted}::text COLLATE "default"`;
}

/** Options of transactions that only read inputs, as the role of the connection sees them. */
export const READING = {
  keep: false,
  isReadOnly: true,
  settings: ["SET LOCAL search_path TO DEFAULT"],
} as const;

/** True if Postgres rejected a text as a value of a type. */
export function isInvalidText(error: unknown): boolean {
  return codeOf(error)?.startsWith("22") ?? false;
}

/**
 * Fingerprint of a row: two 64-bit hashes over the texts of its mapped columns. Each column's hash is the seed of the next, so
 * that values can't run together. NULL and '' are equal, as they are in a content hash.
 */
function fingerprintText(input: InputSource, columns: readonly InputColumn[]): string {
  const isList = (name: string) => columns.find((c) => c.name === name)?.isArray ?? false;
  const names = fingerprintColumns(input);
  const scope = fingerprintScope(input, names.filter(isList));
  const hash = (seed: bigint) =>
    names.reduce(
      (inner, name) =>
        `hashtextextended(coalesce(${valueText(name, isList(name))}, '') COLLATE "C", ${inner})`,
      `'${seed}'::bigint`,
    );
  return `int8send(${hash(scope.readBigInt64BE(0))}) || int8send(${hash(scope.readBigInt64BE(8))})`;
}

function valueText(name: string, isArray: boolean): string {
  const column = `input_row.${quoteIdentifier(name)}`;
  return `${isArray ? `(${column}::text[])` : column}::text`;
}

function keysText(keys: KeySet): string {
  if ("query" in keys) return keys.query;
  const elements = keys.keys.map((key) => `"${key.replaceAll(/["\\]/g, "\\$&")}"`);
  return `SELECT unnest(${quoteLiteral(`{${elements.join(",")}}`)}::text[])`;
}

/** Query for the raw rows of an input, arrays as array literals. */
export function rawSelect(
  input: InputSource,
  parts: readonly MappedColumn[],
  columns: readonly InputColumn[],
  options: Pick<InputQuery, "ranked" | "hasFingerprint" | "among">,
): string {
  return selectRows(input, parts, options, {
    quoteQualified,
    keyText: (column) => keyText(column, columns),
    jsonArray: (texts) =>
      `CASE WHEN ${texts.map((text) => `${text} IS NULL`).join(" OR ")} THEN NULL ELSE json_build_array(${texts.join(", ")})::text END`,
    // The column's collation may treat different texts as equal.
    partText: ({ column, isArray }) => `${valueText(column, isArray)} COLLATE "default"`,
    fingerprint: () => fingerprintText(input, columns),
    isAmong: (key, keys) => `${key} IN (${keysText(keys)})`,
  });
}

/** True if a primary key or unique index makes the key unique. */
export async function keyIsUnique(session: PostgresSession, input: InputSource): Promise<boolean> {
  return containsUniqueKey(input.key, await readUniqueKeys(session, input));
}

const WRONG_SQL = "Correct the SQL; run it in psql to locate the error.";

/** Remedies by SQLSTATE. */
const HINTS: Readonly<Record<string, string>> = {
  "42P01": "Create the table, or correct `sql:`; a table outside the search path needs its schema.",
  "3F000": "Create the schema, or correct `sql:`.",
  "42501": "Grant the connection's role USAGE on the schema and SELECT on the table.",
  "42601": WRONG_SQL,
  "42703": "Correct the column name.",
};

/** Remedies of a missing or forbidden table, which the database knows. */
const TABLE_HINTS: Readonly<Record<string, typeof missingTableHint>> = {
  "42P01": missingTableHint,
  "3F000": missingTableHint,
  "42501": grantHint,
};

/** SQLSTATE of a column name that a query returns twice. */
const AMBIGUOUS = "42702";
const DUPLICATE_NAME = "Give each column of the query its own name.";

/** SQLSTATEs of errors in a query itself, such as a division by zero. */
const QUERY_FAULT = /^(?:2[12]|42|P0)/u;

async function hintOf(
  session: PostgresSession,
  { relation }: InputSource,
  code: string,
): Promise<string | null> {
  if ("table" in relation) {
    const find = TABLE_HINTS[code];
    if (find === undefined) return HINTS[code] ?? null;
    await session.client.query("ROLLBACK TO SAVEPOINT before_describing");
    return await find(session, relation.table);
  }
  return HINTS[code] ?? (QUERY_FAULT.test(code) ? WRONG_SQL : null);
}

/** Returns the problems of an input; reads no rows and changes nothing. */
export async function checkPostgresInput(pool: pg.Pool, input: InputSource): Promise<readonly Problem[]> {
  return inTransaction(pool, (session) => findProblems(session, input), READING);
}

async function findProblems(session: PostgresSession, input: InputSource): Promise<readonly Problem[]> {
  let columns: readonly InputColumn[];
  await session.client.query("SAVEPOINT before_describing");
  try {
    columns = await describeColumns(session, { ...input, where: null });
  } catch (error) {
    return [unreadable(input, error, await hintOf(session, input, codeOf(error) ?? ""))];
  }
  const find = finderOf(columns);
  const problems = columnProblems(input, columns, find);
  if (problems.length > 0) return problems;
  for (const stage of queryStages(input)) {
    const query = rawSelect(stage.input, partsOf(input, "enrich", find), columns, { ranked: true });
    try {
      await session.rows(sql.raw(`EXPLAIN ${query}`));
    } catch (error) {
      const isAmbiguous = stage.setting === null && codeOf(error) === AMBIGUOUS;
      return [unselectable(stage, error, isAmbiguous ? DUPLICATE_NAME : undefined)];
    }
  }
  return [];
}
