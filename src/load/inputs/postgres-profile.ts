import { sql } from "kysely";
import type pg from "pg";
import { codeOf } from "../../errors.ts";
import type { PostgresTarget } from "../db/connect.ts";
import { explained, explainFailure, type NamedDatabase } from "../db/failures.ts";
import { inTransaction, openPool, type PostgresSession } from "../db/session.ts";
import { columnsOfRows, partsOf } from "./columns.ts";
import {
  type InputDatabase,
  type InputColumn,
  type InputSample,
  type InputSource,
  type KeyCounts,
  SAMPLE_ELEMENTS,
  SAMPLE_LENGTH,
  SAMPLE_LIMIT_MS,
  SAMPLE_ROWS,
  type SampledRow,
} from "./input.ts";
import {
  checkPostgresInput,
  containsUniqueKey,
  describeColumns,
  finderOf,
  rawSelect,
  READING,
  readUniqueKeys,
  type UniqueKey,
  uniqueKeysSql,
} from "./postgres.ts";

/** SQLSTATE of a statement that took longer than `statement_timeout`. */
const QUERY_CANCELED = "57014";

/** Counts the keys of an input and reads a sample of its rows; changes nothing. */
async function samplePostgresInput(pool: pg.Pool, input: InputSource, limitMs: number): Promise<InputSample> {
  const settings = [...READING.settings, `SET LOCAL statement_timeout = ${limitMs}`] as const;
  const limited = async <Result>(
    work: (session: PostgresSession) => Promise<Result>,
  ): Promise<Result | null> => {
    try {
      return await inTransaction(pool, work, { ...READING, settings });
    } catch (error) {
      if (codeOf(error) === QUERY_CANCELED) return null;
      throw error;
    }
  };
  const { columns, uniqueKeys } = await inTransaction(
    pool,
    async (session) => ({
      columns: await describeColumns(session, input),
      uniqueKeys: await readUniqueKeys(session, input),
    }),
    READING,
  );
  const isUnique = containsUniqueKey(input.key, uniqueKeys);
  const options = { ranked: false };
  const counted = keyCountsSelect(rawSelect(input, [], columns, options), isUnique);
  const keys = await limited((session) => session.one(sql.raw<KeyCounts>(counted)));
  const parts = partsOf(input, "enrich", finderOf(columns));
  const values = parts.map(({ name, isArray }) => {
    const elements = `unnest(${name}::text[]) WITH ORDINALITY AS u(e, o)`;
    return isArray
      ? `array_to_json(ARRAY(SELECT ${cut("e")} FROM ${elements} ORDER BY o LIMIT ${SAMPLE_ELEMENTS}))`
      : cut(name);
  });
  const read = (order: string) => async (session: PostgresSession) => {
    const rows = await session.rows(
      sql.raw<{ readonly row: SampledRow }>(
        `SELECT json_build_array(${values.join(", ")}) AS row
       FROM (${rawSelect(input, parts, columns, options)}) AS r ${order} LIMIT ${SAMPLE_ROWS}`,
      ),
    );
    return rows.map(({ row }) => row);
  };
  const rows =
    (await limited(read("ORDER BY hashtextextended(source_key, 0)"))) ?? (await limited(read(""))) ?? [];
  return {
    engine: "postgres",
    keys,
    keyIsUnique: isUnique,
    uniqueColumns: uniqueKeys.find(({ isNullable }) => !isNullable)?.columns ?? null,
    columns: columnsOfRows(parts, rows, (column) => finderOf(columns)(column)?.typeName ?? "unknown"),
    sampledRows: rows.length,
    names: columns.map(({ name }) => name),
  };
}

/** The beginning of a value; Postgres doesn't read the rest from disk. */
function cut(value: string): string {
  return `left(${value}, ${SAMPLE_LENGTH})`;
}

function keyCountsSelect(rows: string, isUnique: boolean): string {
  if (isUnique) {
    return `SELECT count(*) AS rows, count(*) FILTER (WHERE source_key IS NULL) AS "withoutKey", 0 AS duplicates
      FROM (${rows}) AS r`;
  }
  return `SELECT coalesce(sum(n), 0)::bigint AS rows, coalesce(sum(n) FILTER (WHERE source_key IS NULL), 0)::bigint AS "withoutKey",
      coalesce(sum(n - 1) FILTER (WHERE source_key IS NOT NULL), 0)::bigint AS duplicates
    FROM (SELECT source_key, count(*) AS n FROM (${rows}) AS r GROUP BY source_key) AS k`;
}

export interface TableColumn extends InputColumn {
  /** `typcategory` of its type: S for texts, N for numbers, D for dates and times, E for enums, A for arrays. */
  readonly category: string;
}

/** A table or view that can hold input rows. */
export interface Table {
  readonly schema: string;
  readonly name: string;
  readonly isView: boolean;
  /** Estimate; null if the database has none. */
  readonly rows: number | null;
  readonly columns: readonly TableColumn[];
  readonly uniqueKeys: readonly UniqueKey[];
}

/** A Postgres database in which a user chooses an input. */
export interface Browser extends Pick<InputDatabase, "checkInput" | "sampleInput" | "close"> {
  /** Lists the tables and views that the role can read, except those in `ownSchemas`. */
  listTables(ownSchemas: readonly string[]): Promise<readonly Table[]>;
}

/** Milliseconds for each statement over a whole table: someone waits. */
const LIMIT_MS = 5_000;

/** Checks of inputs in a database, with its failures explained. */
export function checksIn(
  pool: pg.Pool,
  explain: (error: unknown) => unknown,
  limitMs = SAMPLE_LIMIT_MS,
): Pick<InputDatabase, "checkInput" | "describe" | "sampleInput"> {
  return {
    checkInput: (input) => explained(explain, () => checkPostgresInput(pool, input)),
    describe: (input) =>
      explained(explain, () =>
        inTransaction(pool, (session) => describeColumns(session, { ...input, where: null }), READING),
      ),
    sampleInput: (input) => explained(explain, () => samplePostgresInput(pool, input, limitMs)),
  };
}

/** Opens a database to browse; connects on first use. */
export function openBrowser(target: PostgresTarget, place: NamedDatabase): Browser {
  const pool = openPool(target, 1, { connectMs: 8_000, queryMs: 30_000 });
  const explain = (error: unknown) => explainFailure(error, place);
  return {
    ...checksIn(pool, explain, LIMIT_MS),
    listTables: (ownSchemas) =>
      explained(explain, () =>
        inTransaction(pool, (session) => session.rows(tablesExcept(ownSchemas)), READING),
      ),
    close: () => pool.end(),
  };
}

const tablesExcept = (ownSchemas: readonly string[]) => sql<Table>`
  SELECT n.nspname AS schema, c.relname AS name, c.relkind IN ('v', 'm') AS "isView",
    CASE WHEN c.reltuples > 0 THEN c.reltuples::bigint END AS rows,
    (SELECT coalesce(json_agg(json_build_object('name', a.attname, 'typeName', format_type(a.atttypid, NULL),
        'isArray', t.typcategory = 'A', 'category', t.typcategory) ORDER BY a.attnum), '[]')
      FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
      WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
    ${uniqueKeysSql(sql.ref("c.oid"))} AS "uniqueKeys"
  FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
    AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp_)'
    AND n.nspname <> ALL (${[...ownSchemas]}::text[])
    AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
  ORDER BY n.nspname, c.relname`;
