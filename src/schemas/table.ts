import type { ColumnType, Fields, PiiClass } from "./field.ts";
import { withJoins } from "./joins.ts";

/** Schema of a table: `data` (people), `ops` (runs and usage, no personal data), `state` (internal records). */
export type Schema = "data" | "ops" | "state";

/** Schemas that are published to destinations. */
export type PublishedSchema = Exclude<Schema, "state">;

/** One declared column. */
export interface Column {
  readonly name: string;
  readonly type: ColumnType;
  readonly pii: PiiClass;
  readonly doc: string;
  /** True for NOT NULL; key columns always are. */
  readonly required?: boolean;
}

/** Columns by which an erasure finds a person's rows in a table. JSON columns of the data schema need no declaration: all of them become null where they name an erased person. */
export interface NamesPeople {
  /** Columns that hold a PID; rows with an erased PID are removed. */
  readonly pids?: readonly string[];
  /** Columns that may hold an e-mail address; rows with an erased address are removed. */
  readonly emails?: readonly string[];
  /** True if the row belongs to the input row of its `source` and `source_key` and is removed with it. */
  readonly isOfInputRow?: true;
  /** Columns with the PID of another person: set to null, the row stays. */
  readonly clears?: readonly string[];
  /** True for a list of the person `service_pid`: removing a row also updates `_synced_at` of the row in `person`. */
  readonly isListOfPerson?: true;
}

/** One declared table, the same in Postgres and every destination. */
export interface Table {
  readonly name: string;
  readonly schema: Schema;
  readonly doc: string;
  /** Primary key, in order; empty for a table of a single row. */
  readonly key: readonly string[];
  readonly columns: readonly Column[];
  /** Root table: these rows are replaced with theirs and have the root's key columns. Null for a root. */
  readonly parent: string | null;
  /** True if it has `_run_id`, the run that last wrote a row. */
  readonly hasRunId: boolean;
  /** Columns that name people; `kept` if an erasure leaves its rows on purpose; null if not declared. */
  readonly people: NamesPeople | "nobody" | "kept" | null;
}

/** Declares one column. */
export function column(name: string, type: ColumnType, pii: PiiClass, doc: string, required = false): Column {
  return { name, type, pii, doc, required };
}

/** Columns of scalar fields, named as in the interface. */
export function columnsOf(fields: Fields): readonly Column[] {
  return Object.entries(fields).map(([name, f]) => column(name, f.type, f.pii, f.doc, f.type === "text[]"));
}

const syncedAt = column("_synced_at", "timestamptz", "none", "When the row last changed.", true);
const runId = column("_run_id", "text", "none", "Run that last changed the row.", true);
const extra = column(
  "_extra",
  "json",
  "sensitive",
  "Values of the service without a declared column, by field.",
);

interface TableOptions {
  readonly schema: Schema;
  readonly doc: string;
  readonly key: readonly string[];
  readonly columns: readonly Column[];
  /** Root table, with whose rows these are replaced. Omitted for a root. */
  readonly parent?: string;
  /** True if rows come from an object of the interface: unknown fields go to `_extra`. */
  readonly hasExtra?: boolean;
  /** Optional in the ops schema only, which holds no personal data. */
  readonly people?: Table["people"];
}

/** Declares a table; adds `_extra` (if requested), `_synced_at`, `_run_id` unless it has a `run_id`, and joins to descriptions. */
export function table(name: string, options: TableOptions): Table {
  const hasRunId = !options.columns.some((c) => c.name === "run_id");
  const keyed = withJoins({ name, schema: options.schema, columns: options.columns }).map((c) =>
    options.key.includes(c.name) ? { ...c, required: true } : c,
  );
  return {
    name,
    schema: options.schema,
    doc: options.doc,
    key: options.key,
    columns: [...keyed, ...(options.hasExtra ? [extra] : []), syncedAt, ...(hasRunId ? [runId] : [])],
    parent: options.parent ?? null,
    hasRunId,
    people: options.people ?? (options.schema === "ops" ? "nobody" : null),
  };
}
