import { type Column, type Join, joinsOf } from "../src/schemas/table.ts";
import { tables } from "../src/schemas/registry.ts";
import { views } from "../src/schemas/views/all-views.ts";

/** A table or view with its key; views have none. */
interface Entity {
  readonly name: string;
  readonly key: readonly string[];
  readonly belongsTo: string | null;
  readonly columns: readonly Column[];
  readonly joins: readonly Join[];
}

/** Tables without an entity: copies of the same people elsewhere. */
const LEFT_OUT = ["tombstone"];

/** Tables that start a group of their own; the others are about your rows and their people. */
const GROUPS = ["segment", "death_signal", "person_search", "audience_search", "contact_job"];

const entities: readonly Entity[] = [...tables, ...views.filter(({ name }) => name === "identity_link")]
  .filter(({ schema, name }) => schema === "data" && !LEFT_OUT.includes(name))
  .map((relation) => ({
    name: relation.name,
    key: "key" in relation ? relation.key : ["source", "source_key"],
    belongsTo: "belongsTo" in relation ? relation.belongsTo : null,
    columns: relation.columns,
    joins: joinsOf(relation),
  }));

function isInGroup({ name, joins }: Entity): boolean {
  return GROUPS.includes(name) || joins.some(({ to }) => GROUPS.includes(to));
}

/** Mermaid diagrams of the people's schema: keys, and what they join to. */
export function entityDiagrams(): string {
  return [entities.filter((entity) => !isInGroup(entity)), entities.filter(isInGroup)]
    .map((group) => ["```mermaid", "erDiagram", ...group.flatMap(linesOf), "```"].join("\n"))
    .join("\n\n");
}

/** Lines of an entity: its key and joining columns, then a line for each join. */
function linesOf({ name, key, belongsTo, columns, joins }: Entity): readonly string[] {
  const joining = new Set(joins.flatMap((join) => join.columns));
  const attributes = columns.flatMap(({ name: column, type }) => {
    const marks = [...(key.includes(column) ? ["PK"] : []), ...(joining.has(column) ? ["FK"] : [])];
    return marks.length > 0 ? [`    ${type} ${column} ${marks.join(",")}`] : [];
  });
  const targets = [...new Set(joins.map(({ to }) => to))];
  return [`  ${name} {`, ...attributes, "  }", ...targets.map((to) => relationship(to))];

  function relationship(to: string): string {
    const on = joins.filter((join) => join.to === to).map((join) => join.columns);
    const one = to === belongsTo ? "||" : "|o";
    const many = on.some((names) => key.every((column) => names.includes(column))) ? "o|" : "o{";
    return `  ${to} ${one}--${many} ${name} : "${on.map((names) => names.join(" + ")).join(", ")}"`;
  }
}
