import { sql } from "kysely";
import type { Problem } from "../../errors.ts";
import type { PostgresTarget } from "../db/connect.ts";
import { explainFailure, type NamedDatabase } from "../db/explain-failure.ts";
import { inTransaction, openPool } from "../db/session.ts";
import { checkInput, READING } from "./input.ts";
import type { InputColumn, InputSource } from "./input-source.ts";
import type { InputSample } from "./input-sample.ts";
import { sampleInput } from "./sample-postgres.ts";
import { type UniqueKey, uniqueKeysSql } from "./unique-keys.ts";

/** A column of a table. */
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
export interface Browser {
  /** Lists the tables and views that the role can read, except those in `ownSchemas`. */
  listTables(ownSchemas: readonly string[]): Promise<readonly Table[]>;
  /** Returns the problems of an input; reads no rows. */
  checkInput(input: InputSource): Promise<readonly Problem[]>;
  /** Counts the keys of an input and reads a sample of its rows. */
  sampleInput(input: InputSource): Promise<InputSample>;
  close(): Promise<void>;
}

/** Milliseconds for each statement over a whole table: someone waits. */
const LIMIT_MS = 5_000;

/** Opens a database to browse; connects on first use. */
export function openBrowser(target: PostgresTarget, place: NamedDatabase): Browser {
  const pool = openPool(target, 1, { connectMs: 8_000, queryMs: 30_000 });
  const explained = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    try {
      return await work();
    } catch (error) {
      throw explainFailure(error, place);
    }
  };
  return {
    listTables: (ownSchemas) =>
      explained(() => inTransaction(pool, (session) => session.rows(tablesExcept(ownSchemas)), READING)),
    checkInput: (input) => explained(() => checkInput(pool, input)),
    sampleInput: (input) => explained(() => sampleInput(pool, input, LIMIT_MS)),
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
