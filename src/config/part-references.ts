import type { Path } from "./problems.ts";
import { expectationOf, type PartName } from "./schema/described.ts";
import { optionFor, type Schema, schemaAt } from "./schema/walk.ts";

/** Setting that refers to another part of the file. */
export interface Reference {
  readonly path: Path;
  readonly names: PartName;
  /** The name as written. */
  readonly name: string;
}

/** Finds all settings that refer to another part of the file; within a job, `after` first. */
export function findReferences(root: Schema, tree: unknown): readonly Reference[] {
  const found: Reference[] = [];
  function visit(value: unknown, path: Path): void {
    if (Array.isArray(value)) value.forEach((item, position) => visit(item, [...path, position]));
    else if (typeof value === "object" && value !== null) {
      for (const [key, item] of Object.entries(value)) visit(item, [...path, key]);
    } else if (typeof value === "string") {
      const schema = schemaAt(root, path, tree);
      const names = schema && expectationOf(optionFor(schema, value) ?? schema)?.names;
      if (names) found.push({ path, names, name: value });
    }
  }
  visit(tree, []);
  const isAfter = ({ path }: Reference) => path[2] === "after";
  return [...found.filter(isAfter), ...found.filter((reference) => !isAfter(reference))];
}
