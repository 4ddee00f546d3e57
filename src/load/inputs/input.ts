import { createHash } from "node:crypto";
import type { Readable } from "node:stream";
import type { Problem } from "../../errors.ts";
import type { SecretValue } from "../../object-store.ts";
import type { PostgresTarget } from "../db/connect.ts";

export type LookupType = "resolve" | "validate_emails" | "enrich";

/** Another database that inputs are read from. */
export type InputConnection = PostgresConnection | BigQueryConnection | DuckDbConnection;

interface PostgresConnection extends PostgresTarget {
  readonly type: "postgres";
  readonly name: string;
}

/** A BigQuery project, which is billed for reading. */
export interface BigQueryConnection {
  readonly type: "bigquery";
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

/** Files, which DuckDB reads. */
export interface DuckDbConnection {
  readonly type: "duckdb";
  readonly name: string;
  /** Database file with the tables; null if tables are files themselves. */
  readonly path: string | null;
  /** Address of an S3 service other than Amazon's. */
  readonly s3Endpoint: string | null;
  readonly s3Region: string | null;
  /** Keys of S3, or HMAC keys of GCS; null for public files. */
  readonly accessKeyId: SecretValue | null;
  readonly secretAccessKey: SecretValue | null;
  /** Bearer token for `https://` addresses. */
  readonly webToken: SecretValue | null;
  /** Folder at which relative paths start, and folder for copies and temporary files; a function, so that they don't identify the input. */
  readonly places: () => { readonly folder: string; readonly scratch: string };
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

export interface MappedColumn {
  readonly field: string;
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

/** The input's table or query with its `where`, as a FROM item. A query's final semicolon is left out, unless a comment follows it. */
export function relationText(
  { relation, where }: Pick<InputSource, "relation" | "where">,
  quoteQualified: (parts: readonly string[]) => string,
): string {
  const from =
    "table" in relation ? quoteQualified(relation.table) : `(\n${relation.sql.replace(/[;\s]+$/u, "")}\n)`;
  return `${from} AS input_row${where === null ? "" : ` WHERE (\n${where}\n)`}`;
}

/** Rows and columns of an input to read. */
export interface InputQuery {
  readonly type: LookupType;
  /** True if `order_by` applies. */
  readonly ranked: boolean;
  /** Values of the key columns of the only row to read; absent to read all rows. */
  readonly only?: readonly string[];
  /** True to read these values themselves, in the columns' types, instead of the row. */
  readonly isCast?: boolean;
  readonly hasFingerprint?: boolean;
  readonly isWithoutValues?: boolean;
  /** Keys of the rows to read; absent to read all rows. */
  readonly among?: KeySet;
}

/** Query of a push: all rows, PIDs only. */
export const PUSH_QUERY: InputQuery = { type: "enrich", ranked: false };

/** Column of the raw rows: text, a list of texts without nulls and blanks, a number, or bytes. */
export interface RowColumn {
  readonly name: string;
  readonly type: "text" | "list" | "number" | "bytes";
}

/** Columns of raw rows, in the order of every database. */
export function rowColumns(
  input: Pick<InputSource, "orderBy">,
  parts: readonly MappedColumn[],
  { ranked, hasFingerprint }: Pick<InputQuery, "ranked" | "hasFingerprint">,
): readonly RowColumn[] {
  return [
    { name: "source_key", type: "text" },
    ...parts.map(({ name, isArray }) => ({ name, type: isArray ? ("list" as const) : ("text" as const) })),
    ...(hasFingerprint ? [{ name: "fingerprint", type: "bytes" as const }] : []),
    ...(ranked && input.orderBy !== null ? [{ name: "rank", type: "number" as const }] : []),
  ];
}

/** Expressions for an input's rows in the SQL of its database. */
interface RowSql {
  readonly quoteQualified: (parts: readonly string[]) => string;
  /** Canonical text of a key column: equal values give equal text, whatever the type. */
  keyText(column: string): string;
  /** JSON array of texts; null if one is null. */
  jsonArray(texts: readonly string[]): string;
  /** Text of a mapped column, or its list of texts. */
  partText(part: MappedColumn): string;
  fingerprint(): string;
  /** Condition for the rows with the keys of a set. */
  isAmong(key: string, keys: KeySet): string;
}

/**
 * `SELECT source_key, p0 … pN [, fingerprint] [, rank] FROM input`: everything as text. A composite key is a JSON array of its columns'
 * texts; a key with a null column is null. Among keys, null and '' are one.
 */
export function selectRows(
  input: InputSource,
  parts: readonly MappedColumn[],
  { ranked, hasFingerprint, among }: Pick<InputQuery, "ranked" | "hasFingerprint" | "among">,
  sqlOf: RowSql,
): string {
  const keys = input.key.map((column) => sqlOf.keyText(column));
  const [first = ""] = keys;
  const key = keys.length === 1 ? first : sqlOf.jsonArray(keys);
  const selected = [
    `${key} AS source_key`,
    ...parts.map((part) => `${sqlOf.partText(part)} AS ${part.name}`),
    ...(hasFingerprint ? [`${sqlOf.fingerprint()} AS fingerprint`] : []),
    ...(ranked && input.orderBy !== null ? [`row_number() OVER (ORDER BY\n${input.orderBy}\n) AS rank`] : []),
  ];
  const rows = among ? narrowed(input, sqlOf.isAmong(`coalesce(${key}, '')`, among)) : input;
  return `SELECT ${selected.join(",\n  ")}\nFROM ${relationText(rows, sqlOf.quoteQualified)}`;
}

/** Rows of an input as a COPY stream that can be read once. */
export interface InputRows {
  /** Mapped columns that the job's endpoint takes. */
  readonly parts: readonly MappedColumn[];
  readonly keyIsUnique: boolean;
  readonly columns: readonly RowColumn[];
  /** Rows in the text format of Postgres's COPY. */
  copyText(): Readable;
}

/** One input row. */
export interface RowKey {
  readonly source: string;
  readonly sourceKey: string;
}

export interface Identifiers {
  readonly pids: readonly string[];
  readonly emails: readonly string[];
  readonly rows: readonly RowKey[];
}

/** An input row that names a person. */
export interface NamingRow {
  readonly sourceKey: string | null;
  readonly emails: readonly string[];
  readonly pids: readonly string[];
}

/** Another database that inputs are read from. Uses constant memory. */
export interface InputDatabase {
  /** Returns the problems of an input; reads no rows and changes nothing. */
  checkInput(input: InputSource): Promise<readonly Problem[]>;
  /** Returns the columns of an input; reads no rows. */
  describe(input: InputSource): Promise<readonly InputColumn[]>;
  /** Counts keys of an input, and reads a sample of its rows. */
  sampleInput(input: InputSource): Promise<InputSample>;
  /** Opens an input for the duration of `work`. */
  read<Result>(
    input: InputSource,
    reading: InputQuery,
    work: (rows: InputRows) => Promise<Result>,
  ): Promise<Result>;
  /** Finds the rows of an input with one of these keys, normalized addresses or PIDs. */
  findRows(input: InputSource, wanted: Identifiers): Promise<readonly NamingRow[]>;
  close(): Promise<void>;
}

export type InputDatabases = ReturnType<typeof keepInputDatabases>;

/** Opens each connection once, on first use. */
export function keepInputDatabases(open: (connection: InputConnection) => InputDatabase) {
  const opened = new Map<string, InputDatabase>();
  return {
    of(connection: InputConnection): InputDatabase {
      // After a configuration reload, the same name may refer to another database.
      const key = JSON.stringify(connection);
      const database = opened.get(key) ?? open(connection);
      opened.set(key, database);
      return database;
    },
    async close(): Promise<void> {
      await Promise.all([...opened.values()].map((database) => database.close()));
    },
  };
}

export const SAMPLE_ROWS = 1000;

/**
 * Characters that are read of a value, more than an address or a phone number has. Longer values are classified by them;
 * blanks around these aren't counted.
 */
export const SAMPLE_LENGTH = 400;

/** Elements that are read of a list. */
export const SAMPLE_ELEMENTS = 10;

/** Milliseconds for each statement over a whole input; `check` goes on without its result. */
export const SAMPLE_LIMIT_MS = 10_000;

/** A mapped column with its values in the sample. */
export interface SampledColumn extends Pick<MappedColumn, "field" | "column" | "isArray"> {
  /** Type in the database's own words; the element type for a list. */
  readonly typeName: string;
  /** Values of each sampled row; none for NULL. */
  readonly values: readonly (readonly string[])[];
}

/** Rows of a whole input, by key. */
export interface KeyCounts {
  readonly rows: number;
  /** Rows with a NULL in their key. */
  readonly withoutKey: number;
  /** Rows with the key of another row, except one of each key. */
  readonly duplicates: number;
}

/** Counts and sampled rows of an input, as `check` and `init` read them. */
export interface InputSample {
  /** Null if counting took too long. */
  readonly keys: KeyCounts | null;
  /** True if an index makes the key unique. */
  readonly keyIsUnique: boolean;
  /** Columns without NULL that a primary key or unique index makes unique; null for none. */
  readonly uniqueColumns: readonly string[] | null;
  /** The same random rows each time; the first rows if choosing took too long. */
  readonly columns: readonly SampledColumn[];
  readonly sampledRows: number;
  /** Names of all columns. */
  readonly names: readonly string[];
  readonly engine: "postgres" | "bigquery" | "duckdb";
}

/** Values of a sampled row, in the order of the parts: a text, or a list of texts and nulls. */
export type SampledRow = readonly (string | readonly (string | null)[] | null)[];
