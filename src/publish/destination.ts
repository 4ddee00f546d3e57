import type { Column, PublishedSchema } from "../schemas/table.ts";
import type { View } from "../schemas/view.ts";

/** A table as destinations hold it. */
export interface PublishedTable {
  readonly name: string;
  readonly schema: PublishedSchema;
  readonly doc: string;
  /** Primary key; destinations declare it in comments, not as a constraint. */
  readonly key: readonly string[];
  readonly columns: readonly Column[];
  /** Name of the root table whose keys select its rows; its own name for a root. */
  readonly root: string;
  /** Key columns of the root, which every child has under the same names. Empty for a table of one row. */
  readonly rootKey: readonly string[];
}

/** Everything that a destination holds. */
export interface Catalog {
  /** Roots before their children. */
  readonly tables: readonly PublishedTable[];
  /** Views in an order in which they can be created. */
  readonly views: readonly View[];
  /** Declared tables that the destination may have held before and no longer does. */
  readonly dropped: readonly Pick<PublishedTable, "name" | "schema">[];
}

/** One try to publish one numbered batch. */
export interface BatchRef {
  /** Counts up by one per destination, from 1. */
  readonly number: number;
  /** Drawn at random by the claim: equal numbers of two histories (a restored backup, a second configuration) differ in it. */
  readonly id: string;
  /** Id of the batch that the destination has to stand at; null for a destination without one. */
  readonly follows: string | null;
  /** New for each reading of the rows, [a-z0-9]+: files of two attempts differ, so nothing staged by one serves another. */
  readonly attempt: string;
}

/** The batch that a destination stands at. */
export type Position = Pick<BatchRef, "number" | "id">;

/**
 * Files for one staging table: gzip, one JSON object per line, all columns present. Text, dates, timestamps, uuid, numeric (plain decimal)
 * and json (its text) are strings, bytes base64 strings; integers and booleans are plain, lists are arrays of strings. Instants are
 * ISO 8601 in UTC with at most six fractional digits.
 */
export interface StagedFiles {
  readonly table: PublishedTable;
  /** `keys`: objects of the `rootKey` columns of a root, distinct. `rows`: objects of all columns. */
  readonly content: "keys" | "rows";
  /** Index of this call among those for the same table and content in this attempt, from 0. */
  readonly part: number;
  /** Paths, at least one; the caller removes them after the call. */
  readonly files: readonly string[];
  /** Number of lines in all files. */
  readonly lines: number;
  /** Bytes of the longest line, uncompressed. */
  readonly longestLineBytes: number;
}

/** A change of one table in the transaction of a batch. */
export interface TableChange {
  readonly table: PublishedTable;
  /** `keys`: deletes the rows whose `rootKey` is among the staged keys of the root. `all`: deletes every row. Then the staged rows are inserted. */
  readonly replaces: "keys" | "all";
  /** False if no rows were staged, so that no staging table exists. */
  readonly hasRows: boolean;
}

/** A batch with everything staged. */
export interface StagedBatch extends BatchRef {
  /** Roots before their children; all tables that change. */
  readonly changes: readonly TableChange[];
  /** True if it carries an erasure, after which deleted values may stay in no file that the destination controls. */
  readonly erases: boolean;
}

/** `committed`; `present` if the destination already stood at this batch; `refused` if it stands at neither this batch nor its predecessor. */
export type CommitOutcome = "committed" | "present" | "refused";

/** What is compared per table. */
export interface Measure {
  readonly table: string;
  readonly rows: bigint;
  /** Sum of `_synced_at` in microseconds since the epoch, as exact decimal text; `0` without rows. */
  readonly syncedAtMicros: string;
}

/** One finding of `check`. */
export interface DestinationFinding {
  readonly ok: boolean;
  readonly message: string;
  readonly hint?: string;
}

/** A copy of the tables in another engine, which is never read to decide anything. Connects at the first use. */
export interface Destination {
  /** Its name in the configuration. */
  readonly name: string;
  /** Place for messages, without secrets: `BigQuery project my-project, datasets …`. */
  readonly description: string;
  /** Most keys that one batch should have. */
  readonly keysPerBatch: number;
  /** Verifies access, rights and settings without changing anything. Connection failures are findings too. */
  check(catalog: Catalog): Promise<readonly DestinationFinding[]>;
  /** Creates what is missing: schemas, tables, added columns, comments with the PII class, views. Drops `dropped`: people may be in it. */
  migrate(catalog: Catalog): Promise<void>;
  /** Reads the batch that it stands at; null if none was ever published or `migrate` hasn't run. */
  position(): Promise<Position | null>;
  /** Loads files into the staging table of the attempt, appending to what its other calls staged. A repeated call loads nothing twice. */
  stage(batch: BatchRef, staged: StagedFiles): Promise<void>;
  /** Applies the staged batch and moves the position, in one transaction; drops the attempt's staging tables. */
  commit(batch: StagedBatch): Promise<CommitOutcome>;
  /** Makes what was committed visible to readers and purges erased values. Called when the queue is empty; cheap if nothing changed. */
  finish(): Promise<void>;
  /** Counts and sums for the comparison. A table that doesn't exist counts as empty. */
  measure(tables: readonly PublishedTable[]): Promise<readonly Measure[]>;
  /** Turns a failure into an error of `errors.ts` that states what to do; returns any other error as it is. */
  explain(error: unknown): unknown;
  close(): Promise<void>;
}
