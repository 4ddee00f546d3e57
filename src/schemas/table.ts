import type { ColumnType, Fields, PiiClass } from "./field.ts";

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

/** Columns that hold the key of a row in another table or view. */
export interface Join {
  readonly columns: readonly string[];
  readonly to: string;
  /** Key columns of `to`, in the order of `columns`. */
  readonly toColumns: readonly string[];
}

/** The parts of a table or view that decide what its columns join to. */
interface Relation<C extends { readonly name: string; readonly doc: string }> {
  readonly name: string;
  readonly schema: string;
  readonly columns: readonly C[];
}

const same = (to: string, ...columns: readonly string[]): Join => ({ columns, to, toColumns: columns });

const toPerson = (column: string): Join => ({ columns: [column], to: "person", toColumns: ["service_pid"] });

/** Joins by column name, the same in every table and view of the data and ops schemas. */
const joins: readonly Join[] = [
  toPerson("service_pid"),
  toPerson("last_matched_service_pid"),
  toPerson("relative_service_pid"),
  toPerson("service_spouse_pid"),
  toPerson("returned_service_pid"),
  same("email_validation", "email_address"),
  same("identity_link", "source", "source_key"),
  same("segment", "segment_id"),
  same("death_signal", "service_pid", "obituary_id"),
  same("person_search", "search_id"),
  same("contact_job", "job_id"),
  {
    columns: ["service_pid", "education_position"],
    to: "person_education_experience",
    toColumns: ["service_pid", "position"],
  },
];

/** Returns the joins of a table or view; none for `tombstone`, whose people are gone everywhere. */
export function joinsOf(
  relation: Relation<{ readonly name: string; readonly doc: string }>,
): readonly Join[] {
  if (relation.schema === "state" || relation.name === "tombstone") return [];
  const names = new Set(relation.columns.map(({ name }) => name));
  // The segment of an audience has the ID of its search.
  const isPartOfAudience = relation.name.startsWith("audience_search_");
  return joins
    .filter(({ columns, to }) => to !== relation.name && columns.every((column) => names.has(column)))
    .map((join) => (isPartOfAudience && join.to === "segment" ? { ...join, to: "audience_search" } : join));
}

/** Returns the columns with what they join to at the end of their description, once. */
export function withJoins<C extends { readonly name: string; readonly doc: string }>(
  relation: Relation<C>,
): readonly C[] {
  const sentences = new Map(joinsOf(relation).map((join) => [join.columns.at(-1), sentenceOf(join)]));
  return relation.columns.map((column) => {
    const sentence = sentences.get(column.name);
    const isKnown = sentence === undefined || column.doc.endsWith(sentence);
    return isKnown ? column : { ...column, doc: `${column.doc} ${sentence}` };
  });
}

function sentenceOf({ columns, to, toColumns }: Join): string {
  return columns.length === 1
    ? `Joins to ${to}.${toColumns[0]}.`
    : `With ${columns.slice(0, -1).join(", ")} joins to ${to}.`;
}
