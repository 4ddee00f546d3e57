import type { Readable } from "node:stream";
import type { Problem } from "../../errors.ts";
import type { Identifiers } from "../erasure/subjects.ts";
import type { InputColumn, InputConnection, InputSource, KeySet, Part } from "./input-source.ts";
import type { InputSample } from "./input-sample.ts";
import type { LookupType } from "../lookups/lookup.ts";

/** Parts of an input that a job reads. */
export interface Reading {
  readonly type: LookupType;
  /** True if `order_by` applies. */
  readonly ranked: boolean;
  /** Values of the key columns of the only row to read; absent to read all rows. */
  readonly only?: readonly string[];
  /** True to read these values themselves, in the columns' types, instead of the row. */
  readonly isCast?: boolean;
  /** True to read the fingerprint of each row. */
  readonly hasFingerprint?: boolean;
  /** True to read no values. */
  readonly isWithoutValues?: boolean;
  /** Keys of the rows to read; absent to read all rows. */
  readonly among?: KeySet;
}

/** Reading of a push query: all rows, PIDs only. */
export const PUSH_READING: Reading = { type: "enrich", ranked: false };

/** Column of the raw rows: text, a list of texts without nulls and blanks, a number, or bytes. */
export interface RowColumn {
  readonly name: string;
  readonly type: "text" | "list" | "number" | "bytes";
}

/** Columns of raw rows, in the order of every database. */
export function rowColumns(
  input: Pick<InputSource, "orderBy">,
  parts: readonly Part[],
  { ranked, hasFingerprint }: Pick<Reading, "ranked" | "hasFingerprint">,
): readonly RowColumn[] {
  return [
    { name: "source_key", type: "text" },
    ...parts.map(({ name, isArray }) => ({ name, type: isArray ? ("list" as const) : ("text" as const) })),
    ...(hasFingerprint ? [{ name: "fingerprint", type: "bytes" as const }] : []),
    ...(ranked && input.orderBy !== null ? [{ name: "rank", type: "number" as const }] : []),
  ];
}

/** Rows of an input as a COPY stream that can be read once. */
export interface ForeignRows {
  /** Mapped columns that the job's endpoint takes. */
  readonly parts: readonly Part[];
  readonly keyIsUnique: boolean;
  readonly columns: readonly RowColumn[];
  /** Rows in the text format of Postgres's COPY. */
  copyText(): Readable;
}

/** An input row that names a person. */
export interface NamingRow {
  readonly sourceKey: string | null;
  readonly emails: readonly string[];
  readonly pids: readonly string[];
}

/** Another database that inputs are read from. Uses constant memory. */
export interface ForeignDatabase {
  /** Returns the problems of an input; reads no rows and changes nothing. */
  checkInput(input: InputSource): Promise<readonly Problem[]>;
  /** Returns the columns of an input; reads no rows. */
  describe(input: InputSource): Promise<readonly InputColumn[]>;
  /** Counts keys of an input, and reads a sample of its rows. */
  sampleInput(input: InputSource): Promise<InputSample>;
  /** Opens an input for the duration of `work`. */
  read<Result>(
    input: InputSource,
    reading: Reading,
    work: (rows: ForeignRows) => Promise<Result>,
  ): Promise<Result>;
  /** Finds the rows of an input with one of these keys, normalized addresses or PIDs. */
  findRows(input: InputSource, wanted: Identifiers): Promise<readonly NamingRow[]>;
  close(): Promise<void>;
}

/** Databases of the connections in use. */
export interface ForeignDatabases {
  of(connection: InputConnection): ForeignDatabase;
  close(): Promise<void>;
}

/** Opens each connection once, on first use. */
export function keepForeignDatabases(
  open: (connection: InputConnection) => ForeignDatabase,
): ForeignDatabases {
  const opened = new Map<string, ForeignDatabase>();
  return {
    of(connection) {
      // After a configuration reload, the same name may refer to another database.
      const key = JSON.stringify(connection);
      const database = opened.get(key) ?? open(connection);
      opened.set(key, database);
      return database;
    },
    async close() {
      await Promise.all([...opened.values()].map((database) => database.close()));
    },
  };
}
