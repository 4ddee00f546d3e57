import { type ExtraColumns, extraColumns } from "../schemas/extra-columns.ts";
import { text, timestamptz } from "../schemas/field.ts";
import { tables as declared, tableNamed } from "../schemas/registry.ts";
import {
  type Column,
  columnsOf,
  foreignKeyOf,
  type Join,
  type PublishedSchema,
  type Table,
} from "../schemas/table.ts";
import { views } from "../schemas/views/all-views.ts";
import type { View } from "../schemas/views/view.ts";

export interface PublishedTable {
  readonly name: string;
  readonly schema: PublishedSchema;
  readonly doc: string;
  /** Primary key: BigQuery declares it, other destinations name it in comments. */
  readonly key: readonly string[];
  readonly columns: readonly Column[];
  /** Join to a published table that has a row for each of these rows, in the order of its key; absent for none. */
  readonly foreignKey?: Join;
  /** Columns of the keys by which its rows are replaced: the key of its parent, if it has one. Empty for a table that is replaced whole. */
  readonly rootKey: readonly string[];
}

/** Everything in a destination. */
export interface Catalog {
  readonly tables: readonly PublishedTable[];
  /** Views in an order in which they can be created. */
  readonly views: readonly View[];
  /** Declared tables that are no longer published but may still exist in the destination. */
  readonly dropped: readonly Pick<PublishedTable, "name" | "schema">[];
}

/** One attempt to publish a numbered batch. */
export interface BatchRef {
  /** Counts up by one per destination, from 1. */
  readonly number: number;
  /** Random, set by the claim: distinguishes equal numbers of two histories (a restored backup, a second configuration). */
  readonly id: string;
  /** ID of the batch that must precede it in the destination; null for the first. */
  readonly follows: string | null;
  /** New whenever the rows are read, [a-z0-9]+: an attempt can't use files staged by another, which may differ. */
  readonly attempt: string;
}

/** The last batch committed to a destination. */
export type Position = Pick<BatchRef, "number" | "id">;

/** Form of the lines of staged files, see {@link StagedFiles}. */
export type FileFormat = "json" | "text";

/**
 * Files for one staging table: one line per row, all columns present.
 *
 * `json`: gzipped; each line is a JSON object. Text, dates, timestamps, uuid, numeric (plain decimal)
 * and json (its text) are strings, bytes base64 strings; integers and booleans are plain, lists are arrays of strings. Instants are
 * ISO 8601 in UTC with at most six fractional digits.
 *
 * `text`: uncompressed; the same values, separated by tabs and escaped by backslashes as COPY does, null as `\N`, lists as JSON, after
 * an empty column: so no line is empty, and no file begins with a byte order mark that is part of a value.
 */
export interface StagedFiles {
  readonly table: PublishedTable;
  /** `keys`: objects of the `rootKey` columns, distinct. `rows`: objects of all columns. */
  readonly content: "keys" | "rows";
  /** As in the change of the table. */
  readonly replaces: TableChange["replaces"];
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
  /** `keys`: deletes the rows whose `rootKey` is among the staged keys of the table. `all`: deletes every row. Then the staged rows are inserted. */
  readonly replaces: "keys" | "all";
  /** False if no rows were staged, so that no staging table exists. */
  readonly hasRows: boolean;
}

/** A completely staged batch. */
export interface StagedBatch extends BatchRef {
  /** All tables that change. */
  readonly changes: readonly TableChange[];
  /** True if it contains an erasure: deleted values must then be removed from all files of the destination. */
  readonly erases: boolean;
}

/** `committed`; `present` if it was already committed; `refused` if the destination's last batch is neither this one nor its predecessor. */
export type CommitOutcome = "committed" | "present" | "refused";

/** Count and contents of a table, for comparison with Postgres. */
export interface Measure {
  readonly table: string;
  readonly rows: bigint;
  /**
   * Sum over the rows of the first 15 hexadecimal digits of the MD5 of their columns, in exact decimals; `0` without rows. The columns are
   * joined by U+0001, null as U+0002: days or microseconds since 1970 in UTC, plain decimals without trailing zeros, `true` and `false`,
   * bytes as hexadecimal digits, lists joined by U+0001. The text of json counts where files are `text`, otherwise only that it is there.
   */
  readonly hash: string;
}

export interface DestinationFinding {
  readonly ok: boolean;
  readonly message: string;
  readonly hint?: string;
}

/** A copy of the tables in another engine; no decision depends on its data. Connects at the first use. */
export interface Destination {
  /** Name in the configuration. */
  readonly name: string;
  /** Description for messages, without secrets: `BigQuery project my-project, datasets …`. */
  readonly description: string;
  /** Form of the files that `stage` takes. */
  readonly fileFormat: FileFormat;
  readonly keysPerBatch: number;
  /** Verifies access, privileges and settings without changing anything. Reports connection failures as findings, too. */
  check(catalog: Catalog): Promise<readonly DestinationFinding[]>;
  /** Creates missing schemas, tables, columns and views, and updates comments. Drops `dropped`, which may contain personal data. */
  migrate(catalog: Catalog): Promise<void>;
  /** Discards what the destination keeps for itself, before everything is published again. Readers keep what they have. */
  restart(): Promise<void>;
  /** Reads the last committed batch; null if nothing was published yet or `migrate` hasn't run. */
  position(): Promise<Position | null>;
  /** Loads files into the staging table of the attempt, after those of earlier calls. Idempotent. */
  stage(batch: BatchRef, staged: StagedFiles): Promise<void>;
  /** Applies the staged batch and moves the position; readers see both or neither. Drops the attempt's staging tables. */
  commit(batch: StagedBatch): Promise<CommitOutcome>;
  /**
   * Makes commits visible to readers and purges erased values. Called when the queue is empty; cheap if nothing changed. Returns the number of
   * former snapshots and files that it removed, where a destination has those.
   */
  finish(): Promise<{ readonly snapshots: number; readonly files: number } | void>;
  /** Counts and hashes of tables. A missing table counts as empty. */
  measure(tables: readonly PublishedTable[]): Promise<readonly Measure[]>;
  /** Converts a failure into an error of `errors.ts` with a remedy; returns other errors unchanged. */
  explain(error: unknown): unknown;
  /** Closes what is open; the next use opens it again. */
  close(): Promise<void>;
}

/** Freshness of every table at a destination's last snapshot; a view in Postgres, a table in destinations. */
export const freshnessTable: PublishedTable = {
  name: "table_freshness",
  schema: "ops",
  doc: "Freshness of each table at the last batch after which no change was waiting. Incremental readers can read up to `safe_until`.",
  key: ["table_name"],
  rootKey: [],
  columns: columnsOf({
    table_name: text("none", "The table.", "required"),
    last_success_at: timestamptz(
      "none",
      "End of the last success; runs that ended at your own cap or budget are included.",
    ),
    last_changed_at: timestamptz("none", "Last change of a row."),
    safe_until: timestamptz("none", "Every row with an older `_synced_at` is published."),
  }),
};

function published(table: Table): readonly PublishedTable[] {
  const { name, schema, doc, key, columns, parent } = table;
  if (schema === "state") return [];
  return [{ name, schema, doc, key, columns, ...foreignKey(table), rootKey: tableNamed(parent ?? name).key }];
}

function foreignKey(table: Table): Pick<PublishedTable, "foreignKey"> {
  const join = foreignKeyOf(table);
  if (join === null) return {};
  const toColumns = tableNamed(join.to).key;
  const columns = toColumns.map((name) => join.columns[join.toColumns.indexOf(name)] ?? name);
  return { foreignKey: { columns, to: join.to, toColumns } };
}

const publishable: readonly PublishedTable[] = declared.flatMap(published);

/** Builds the catalog of a destination with every declared view whose tables it has. @param extra columns that the user adds to `person` */
export function declaredCatalog(only: readonly string[] | null, extra: ExtraColumns = {}): Catalog {
  const catalog = withViews(catalogOf(only), views);
  const added = extraColumns(extra);
  const tables = catalog.tables.map((table) =>
    table.name === "person" ? { ...table, columns: [...table.columns, ...added] } : table,
  );
  return { ...catalog, tables };
}

/** Leaves out a foreign key to a table that isn't published. */
function withKeyAmong(
  names: ReadonlySet<string>,
  { foreignKey: key, ...table }: PublishedTable,
): PublishedTable {
  return key && names.has(key.to) ? { ...table, foreignKey: key } : table;
}

/** Builds a catalog without views. `only` lists its tables; null means all. */
export function catalogOf(only: readonly string[] | null): Catalog {
  // Freshness of unpublished tables would be misleading.
  const tables =
    only === null ? [...publishable, freshnessTable] : publishable.filter(({ name }) => only.includes(name));
  const dropped = [...publishable, freshnessTable].filter((table) => !tables.includes(table)).toReversed();
  const names = new Set(tables.map(({ name }) => name));
  return { tables: tables.map((table) => withKeyAmong(names, table)), views: [], dropped };
}

/** Adds views whose tables and views the catalog has. Views that only Postgres can compute are tables of the same name. */
export function withViews(catalog: Catalog, views: readonly View[]): Catalog {
  const known = new Set([...catalog.tables, ...catalog.views].map(({ name }) => name));
  const added: View[] = [];
  for (const view of views) {
    if (known.has(view.name) || !view.reads.every((name) => known.has(name))) continue;
    added.push(view);
    known.add(view.name);
  }
  return { ...catalog, views: [...catalog.views, ...added] };
}
