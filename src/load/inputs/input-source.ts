import { createHash } from "node:crypto";
import type { PostgresTarget } from "../db/connect.ts";

/** Another database that inputs are read from. */
export type InputConnection = PostgresConnection | BigQueryConnection;

/** A Postgres database. */
interface PostgresConnection extends PostgresTarget {
  readonly type: "postgres";
  /** Name in the configuration. */
  readonly name: string;
}

/** A BigQuery project, which is billed for reading. */
export interface BigQueryConnection {
  readonly type: "bigquery";
  /** Name in the configuration. */
  readonly name: string;
  readonly project: string;
  /** Dataset of tables named without one; null if none is set. */
  readonly dataset: string | null;
  /** `EU`, `us-central1`; null: location of the tables. */
  readonly location: string | null;
  /** Path of a key file; null for the application default credentials. */
  readonly credentialsFile: string | null;
  /** Service account to act as; null for none. */
  readonly impersonate: string | null;
  /** Address of an emulator; null for Google's. */
  readonly apiEndpoint: string | null;
  readonly maximumBytesBilled: number | null;
}

/** A job's input: a table or a query, in the warehouse itself or in another database. */
export interface InputSource {
  /** Name in the configuration, stored as `source` of its rows. */
  readonly name: string;
  /** Another database; null for the warehouse itself. */
  readonly connection: InputConnection | null;
  /** Table (parts of its name) or query. */
  readonly relation: { readonly table: readonly string[] } | { readonly sql: string };
  readonly where: string | null;
  readonly orderBy: string | null;
  /** Key columns, in order. */
  readonly key: readonly string[];
  /** True to send values without blanks around them, addresses in lower case, and no placeholders. */
  readonly normalize: boolean;
  /** Columns by field of the input record; with a shard, including those that the job doesn't send. */
  readonly fields: Readonly<Record<string, readonly string[]>>;
}

/** Hash of what selects the rows of an input, whatever its name: rows that a changed definition leaves out were deleted by nobody. */
export function inputDefinition({ connection, relation, where, key }: InputSource): string {
  return createHash("sha256")
    .update(JSON.stringify([connection, relation, where, key]))
    .digest("hex");
}

/** A mapped column: column `index` of its field. */
export interface Part {
  readonly field: string;
  readonly index: number;
  readonly column: string;
  readonly isArray: boolean;
  /** Column name in our statements. */
  readonly name: string;
}

/** Column of an input, as described by its database. */
export interface InputColumn {
  readonly name: string;
  /** Type in the database's own words; the element type for a list. */
  readonly typeName: string;
  readonly isArray: boolean;
}

/** Keys of input rows: a list, or a query in the warehouse. */
export type KeySet = { readonly keys: readonly string[] } | { readonly query: string };

/** The input with one more condition. */
export function narrowed(input: InputSource, condition: string): InputSource {
  return { ...input, where: input.where === null ? condition : `(\n${input.where}\n) AND ${condition}` };
}

/** The input's table or query with its `where`, as a FROM item. */
export function relationText(
  { relation, where }: Pick<InputSource, "relation" | "where">,
  { quoteQualified, withoutSemicolon }: InputSyntax,
): string {
  const from =
    "table" in relation ? quoteQualified(relation.table) : `(\n${withoutSemicolon(relation.sql)}\n)`;
  return `${from} AS input_row${where === null ? "" : ` WHERE (\n${where}\n)`}`;
}

/** Quoting and comments of a database's SQL. */
interface InputSyntax {
  readonly quoteQualified: (parts: readonly string[]) => string;
  readonly withoutSemicolon: (query: string) => string;
}
