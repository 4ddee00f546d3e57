import { type Field, type Fields, json, type RowOf, text, timestamptz } from "./field.ts";

/** Schema of a table: `data` (people), `ops` (runs and usage, no personal data), `state` (internal records). */
export type Schema = "data" | "ops" | "state";

/** Schemas that are published to destinations. */
export type PublishedSchema = Exclude<Schema, "state">;

export interface Column extends Omit<Field, "required"> {
  readonly name: string;
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
  /** Root table, whose key columns these rows have. Null for a root. */
  readonly parent: string | null;
  /** Table that always has the row which each of these rows joins to: a foreign key. By default the parent. */
  readonly belongsTo: string | null;
  /** True if it has `_run_id`, the run that last wrote a row. */
  readonly hasRunId: boolean;
  /** Columns that name people; `kept` if an erasure leaves its rows on purpose; null if not declared. */
  readonly people: NamesPeople | "nobody" | "kept" | null;
}

/** Types of the name, schema and rows of a table or view. */
export interface Declared<Name extends string, S extends Schema, Row> {
  readonly name: Name;
  readonly schema: S;
  /** Type of a row; without a value. */
  readonly row?: Row;
}

const extraColumn = {
  _extra: json("sensitive", "Values of the service without a declared column, by field."),
};
const syncedAtColumn = { _synced_at: timestamptz("none", "When the row last changed.", "required") };
const runIdColumn = { _run_id: text("none", "Run that last changed the row.", "required") };

interface TableOptions<S extends Schema, F extends Fields, Key extends string, HasExtra extends boolean> {
  readonly schema: S;
  readonly doc: string;
  readonly key: readonly Key[];
  readonly columns: F;
  /** Root table, with whose rows these are replaced. Omitted for a root. */
  readonly parent?: string;
  readonly belongsTo?: string;
  /** True if rows come from an object of the interface: unknown fields go to `_extra`. */
  readonly hasExtra?: HasExtra;
  /** Optional in the ops schema only, which holds no personal data. */
  readonly people?: Table["people"];
}

/** Row of a table: its declared columns, and those that {@link table} adds. */
type TableRow<F extends Fields, Key extends string, HasExtra extends boolean> = RowOf<F, Key> &
  RowOf<typeof syncedAtColumn> &
  (HasExtra extends true ? RowOf<typeof extraColumn> : unknown) &
  ("run_id" extends keyof F ? unknown : RowOf<typeof runIdColumn>);

/** Declares a table; adds `_extra` (if requested), `_synced_at`, `_run_id` unless it has a `run_id`, and joins to descriptions. */
export function table<
  const Name extends string,
  S extends Schema,
  F extends Fields,
  const Key extends string & keyof F,
  HasExtra extends boolean = false,
>(
  name: Name,
  options: TableOptions<S, F, Key, HasExtra>,
): Table & Declared<Name, S, TableRow<F, Key, HasExtra>> {
  const { schema, doc, parent = null, people = schema === "ops" ? "nobody" : null } = options;
  const key: readonly string[] = options.key;
  const hasRunId = !Object.hasOwn(options.columns, "run_id");
  const described = withJoins({ name, schema, columns: columnsOf(options.columns) });
  const columns = [
    ...described.map((column) => (key.includes(column.name) ? { ...column, required: true } : column)),
    ...columnsOf({
      ...(options.hasExtra ? extraColumn : {}),
      ...syncedAtColumn,
      ...(hasRunId ? runIdColumn : {}),
    }),
  ];
  return {
    name,
    schema,
    doc,
    key,
    columns,
    parent,
    belongsTo: options.belongsTo ?? parent,
    hasRunId,
    people,
  };
}

export function columnsOf(fields: Fields): readonly Column[] {
  return Object.entries(fields).map(([name, field]) => ({ name, ...field }));
}

/** Columns in order, without those that a load fills on its own. */
export function loadedColumns({ columns }: Pick<Table, "columns">): readonly string[] {
  return columns.map(({ name }) => name).filter((name) => name !== "_synced_at" && name !== "_run_id");
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

/** Returns the join of a table to the rows that its own belong to; null if it has none. */
export function foreignKeyOf(table: Table): Join | null {
  return joinsOf(table).find(({ to }) => to === table.belongsTo) ?? null;
}

/** Returns the columns with what they join to at the end of their description. */
export function withJoins<C extends { readonly name: string; readonly doc: string }>(
  relation: Relation<C>,
): readonly C[] {
  const sentences = new Map(joinsOf(relation).map((join) => [join.columns.at(-1), sentenceOf(join)]));
  return relation.columns.map((column) => {
    const sentence = sentences.get(column.name);
    return sentence === undefined ? column : { ...column, doc: `${column.doc} ${sentence}` };
  });
}

function sentenceOf({ columns, to, toColumns }: Join): string {
  return columns.length === 1
    ? `Joins to ${to}.${toColumns[0]}.`
    : `Joins to ${to}, together with ${columns.slice(0, -1).join(", ")}.`;
}
