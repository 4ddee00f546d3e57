/** Another database that inputs live in. */
export type InputConnection = PostgresConnection | BigQueryConnection;

/** A Postgres database. */
export interface PostgresConnection {
  readonly type: "postgres";
  /** Name in the configuration. */
  readonly name: string;
  /** Connection string; never part of a message. */
  readonly url: string;
}

/** A project of BigQuery: the one that pays for reading. */
export interface BigQueryConnection {
  readonly type: "bigquery";
  /** Name in the configuration. */
  readonly name: string;
  readonly project: string;
  /** Where tables are that are named without a dataset; null for nowhere. */
  readonly dataset: string | null;
  /** `EU`, `us-central1`; null for where the tables are. */
  readonly location: string | null;
  /** Path of a key file; null for the application default credentials. */
  readonly credentialsFile: string | null;
  /** Service account to act as; null for none. */
  readonly impersonate: string | null;
  /** Of an emulator; null for Google's. */
  readonly apiEndpoint: string | null;
  readonly maximumBytesBilled: number | null;
}

/** Where a job's input rows are: a table or a query, in the warehouse itself or behind another connection. */
export interface InputSource {
  /** Name in the configuration; `source` of every row that stands for it. */
  readonly name: string;
  /** Another database; null for the warehouse itself. */
  readonly connection: InputConnection | null;
  /** A table by its name parts, or a query. */
  readonly relation: { readonly table: readonly string[] } | { readonly sql: string };
  readonly where: string | null;
  readonly orderBy: string | null;
  /** Key columns, in order. */
  readonly key: readonly string[];
  readonly cursor: { readonly column: string; readonly overlapMs: number } | null;
  /** Columns by field of the interface's input record; with a shard also those that the job doesn't send. */
  readonly fields: Readonly<Record<string, readonly string[]>>;
}

/** How far the cursor of an input got. */
export interface CursorMax {
  /** Highest value up to the database's clock, as text; null without a cursor or rows. */
  readonly cursorMax: string | null;
  /** Rows whose cursor is infinite or after the clock. */
  readonly cursorAhead: number;
}

/** One mapped column: column `index` of its field. */
export interface Part {
  readonly field: string;
  readonly index: number;
  readonly column: string;
  readonly isArray: boolean;
  /** Name of the part inside our statements. */
  readonly name: string;
}
