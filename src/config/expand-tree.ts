import type { Path, Problems } from "./problems.ts";
import { type Environment, expand } from "./references.ts";
import { expectationOf } from "./schema/described.ts";
import { type Schema, schemaAt } from "./schema/walk.ts";

/**
 * Replaces `${NAME}` in all texts, except where the schema expects a secret: these remain references, so that no secret is
 * ever part of the tree.
 */
export function expandTree(root: Schema, tree: object, env: Environment, problems: Problems): object {
  function visit(value: unknown, path: Path): unknown {
    if (Array.isArray(value)) return value.map((item, position) => visit(item, [...path, position]));
    if (typeof value === "object" && value !== null) {
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => [key, visit(item, [...path, key])]),
      );
    }
    if (typeof value !== "string" || !value.includes("${") || !isExpanded(path)) return value;
    const schema = schemaAt(root, path, tree);
    const isSql = schema !== null && expectationOf(schema)?.isSql === true;
    if (isSql && value.replaceAll("$${", "").includes("${")) {
      problems.add(path, {
        message: "contains ${…}, which SQL can't: the variable would become part of the statement",
        hint: "write the value itself, or keep it in a table or view",
      });
      return value;
    }
    const expanded = expand(value, env);
    if ("text" in expanded) return expanded.text;
    problems.add(path, expanded);
    return value;
  }
  /** Text at a path unknown to the schema is not expanded; it is rejected anyway. */
  function isExpanded(path: Path): boolean {
    const schema = schemaAt(root, path, tree);
    return schema !== null && expectationOf(schema)?.isSecret !== true;
  }
  return Object(visit(tree, []));
}
