import type { ColumnType, Fields, PiiClass } from "./field.ts";

/** Schema of a table: `data` holds people, `ops` runs and usage without personal data, `state` the program's own records. */
export type Schema = "data" | "ops" | "state";

/** Schemas that destinations get a copy of. */
export type PublishedSchema = Exclude<Schema, "state">;

/** One declared column. */
export interface Column {
  readonly name: string;
  readonly type: ColumnType;
  readonly pii: PiiClass;
  readonly doc: string;
  /** Never null. Key columns always are. */
  readonly required?: boolean;
}

/** How the rows of a table name people: what an erasure has to find in it. */
export interface NamesPeople {
  /** Columns that hold a PID: a row that names an erased person in one of them is removed. */
  readonly pids?: readonly string[];
  /** Columns that hold an e-mail address (perhaps among other things), likewise. */
  readonly emails?: readonly string[];
  /** The row stands for the input row of its `source` and `source_key`, and goes with it. */
  readonly isOfInputRow?: true;
  /** JSON columns in which PIDs can stand as values: a row that mentions an erased one is removed. */
  readonly mentions?: readonly string[];
  /** Columns with the PID of somebody else than the row is about: set to null, the row stays. */
  readonly clears?: readonly string[];
  /** The rows are a list of the person `service_pid`, whose row in `person` moves when one of them is removed. */
  readonly isListOfPerson?: true;
}

/** One declared table: the same in every warehouse. */
export interface Table {
  readonly name: string;
  readonly schema: Schema;
  readonly doc: string;
  /** Primary key, in order; empty for a table of a single row. */
  readonly key: readonly string[];
  readonly columns: readonly Column[];
  /** Root table with whose rows this table's are replaced; its key stands here under the same names. Null for a root. */
  readonly parent: string | null;
  /** Whether it has `_run_id`, of the run that wrote a row last. */
  readonly hasRunId: boolean;
  /** How it names people; `kept` for what an erasure leaves there on purpose; null when nobody has said so. */
  readonly people: NamesPeople | "nobody" | "kept" | null;
}

/** Declares one column. */
export function column(name: string, type: ColumnType, pii: PiiClass, doc: string, required = false): Column {
  return { name, type, pii, doc, required };
}

/** The columns of scalar fields, under the interface's own names. */
export function columnsOf(fields: Fields): readonly Column[] {
  return Object.entries(fields).map(([name, f]) => column(name, f.type, f.pii, f.doc, f.type === "text[]"));
}

const syncedAt = column("_synced_at", "timestamptz", "none", "When this row last changed.", true);
const runId = column("_run_id", "text", "none", "The run that last changed this row.", true);
const extra = column(
  "_extra",
  "json",
  "sensitive",
  "What the service sent beyond the declared columns, by field.",
);

interface TableOptions {
  readonly schema: Schema;
  readonly doc: string;
  readonly key: readonly string[];
  readonly columns: readonly Column[];
  /** Root table with whose rows these are replaced. Left out for a root. */
  readonly parent?: string;
  /** Rows come from an object of the interface, so unknown fields are kept in `_extra`. */
  readonly hasExtra?: boolean;
  /** May be left out in the ops schema only, which holds no personal data. */
  readonly people?: Table["people"];
}

/** Declares a table; adds `_extra` (where asked for), `_synced_at`, and `_run_id` unless it has a `run_id`. */
export function table(name: string, options: TableOptions): Table {
  const hasRunId = !options.columns.some((c) => c.name === "run_id");
  const keyed = options.columns.map((c) => (options.key.includes(c.name) ? { ...c, required: true } : c));
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
