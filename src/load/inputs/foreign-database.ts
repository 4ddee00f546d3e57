import type { Readable } from "node:stream";
import type { Problem } from "../../errors.ts";
import type { KnownBy } from "../erasure/people.ts";
import type { CursorMax, InputConnection, InputSource, Part } from "./input-source.ts";
import type { RecentBound } from "../due/pass-checkpoint.ts";
import type { LookupType } from "../lookup.ts";

/** What of an input a job reads. */
export interface Reading {
  readonly type: LookupType;
  /** Whether `order_by` counts. */
  readonly ranked: boolean;
  readonly recent: RecentBound | null;
  readonly isSharded: boolean;
}

/** How a push's query is read: all of it, PIDs only. */
export const PUSH_READING: Reading = { type: "enrich", ranked: false, recent: null, isSharded: false };

/** A column of the raw rows: text, a list of texts without nulls and blanks, truth, or a number. */
export interface RowColumn {
  readonly name: string;
  readonly type: "text" | "list" | "truth" | "number";
}

/** The columns of raw rows, in the order in which every database gives them. */
export function rowColumns(
  input: Pick<InputSource, "cursor" | "orderBy">,
  parts: readonly Part[],
  { recent, ranked }: Pick<Reading, "recent" | "ranked">,
): readonly RowColumn[] {
  return [
    { name: "source_key", type: "text" },
    ...parts.map(({ name, isArray }) => ({ name, type: isArray ? ("list" as const) : ("text" as const) })),
    ...(recent && input.cursor ? [{ name: "is_recent", type: "truth" as const }] : []),
    ...(ranked && input.orderBy !== null ? [{ name: "rank", type: "number" as const }] : []),
  ];
}

/** The rows of an input, as a COPY stream that can be read once. */
export interface ForeignRows extends CursorMax {
  /** What the job's endpoint takes. */
  readonly parts: readonly Part[];
  /** What else is mapped; empty without a shard, which alone looks at it. */
  readonly otherParts: readonly Part[];
  readonly keyIsUnique: boolean;
  readonly columns: readonly RowColumn[];
  /** Rows in the text format of Postgres' COPY. */
  copyText(): Readable;
}

/** A row of an input that names somebody. */
export interface NamingRow {
  readonly sourceKey: string | null;
  readonly emails: readonly string[];
  readonly pids: readonly string[];
}

/** Another database that inputs are read from. Memory stays flat, however long an input is. */
export interface ForeignDatabase {
  /** What is wrong with an input; reads no row and changes nothing. */
  checkInput(input: InputSource): Promise<readonly Problem[]>;
  /** Whether a text is a value of an input's cursor; reads no row. */
  isCursorValue(input: InputSource, value: string): Promise<boolean>;
  /** Opens an input for as long as `work` takes. */
  read<Result>(
    input: InputSource,
    reading: Reading,
    work: (rows: ForeignRows) => Promise<Result>,
  ): Promise<Result>;
  /** The rows of an input with one of these keys, addresses (in the form in which they are compared) or PIDs. */
  findRows(input: InputSource, wanted: KnownBy): Promise<readonly NamingRow[]>;
  close(): Promise<void>;
}

/** The databases behind the connections that are in use. */
export interface ForeignDatabases {
  of(connection: InputConnection): ForeignDatabase;
  close(): Promise<void>;
}

/** Opens each connection once, at its first use. */
export function keepForeignDatabases(
  open: (connection: InputConnection) => ForeignDatabase,
): ForeignDatabases {
  const opened = new Map<string, ForeignDatabase>();
  return {
    of(connection) {
      // A scheduler that reads its configuration again may find another database under the same name.
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
