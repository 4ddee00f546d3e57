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
