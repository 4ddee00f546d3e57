import type pg from "pg";
import { sql } from "kysely";
import { codeOf } from "../../errors.ts";
import { inTransaction, type Session } from "../db/session.ts";
import {
  columnsOfRows,
  type InputSample,
  type KeyCounts,
  SAMPLE_ELEMENTS,
  SAMPLE_LENGTH,
  SAMPLE_LIMIT_MS,
  SAMPLE_ROWS,
  type SampledRow,
} from "./input-sample.ts";
import { describeColumns, finderOf, raw, rawSelect, READING } from "./input.ts";
import type { InputSource } from "./input-source.ts";
import { partsOf } from "./mapped-columns.ts";
import { containsUniqueKey, readUniqueKeys } from "./unique-keys.ts";

/** SQLSTATE of a statement that took longer than `statement_timeout`. */
const QUERY_CANCELED = "57014";

/** Counts the keys of an input and reads a sample of its rows; changes nothing. */
export async function sampleInput(
  pool: pg.Pool,
  input: InputSource,
  limitMs = SAMPLE_LIMIT_MS,
): Promise<InputSample> {
  const settings = [...READING.settings, `SET LOCAL statement_timeout = ${limitMs}`] as const;
  const limited = async <Result>(work: (session: Session) => Promise<Result>): Promise<Result | null> => {
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
  const keys = await limited(async (session) => {
    const rows = rawSelect(input, [], columns, options);
    const [counts] = await session.rows(sql<KeyCounts>`${raw(keyCountsSelect(rows, isUnique))}`);
    return counts ?? { rows: 0, withoutKey: 0, duplicates: 0 };
  });
  const parts = partsOf(input, "enrich", finderOf(columns));
  const values = parts.map(({ name, isArray }) => {
    const elements = `unnest(${name}::text[]) WITH ORDINALITY AS u(e, o)`;
    return isArray
      ? `array_to_json(ARRAY(SELECT ${cut("e")} FROM ${elements} ORDER BY o LIMIT ${SAMPLE_ELEMENTS}))`
      : cut(name);
  });
  const read = (order: string) => async (session: Session) => {
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

/** Query for {@link KeyCounts} over raw rows. */
function keyCountsSelect(rows: string, isUnique: boolean): string {
  if (isUnique) {
    return `SELECT count(*) AS rows, count(*) FILTER (WHERE source_key IS NULL) AS "withoutKey", 0 AS duplicates
      FROM (${rows}) AS r`;
  }
  return `SELECT coalesce(sum(n), 0)::bigint AS rows, coalesce(sum(n) FILTER (WHERE source_key IS NULL), 0)::bigint AS "withoutKey",
      coalesce(sum(n - 1) FILTER (WHERE source_key IS NOT NULL), 0)::bigint AS duplicates
    FROM (SELECT source_key, count(*) AS n FROM (${rows}) AS r GROUP BY source_key) AS k`;
}
