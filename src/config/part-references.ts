import type { Path } from "./problems.ts";
import { expectationOf, type PartName } from "./schema/described.ts";
import { optionFor, type Schema, schemaAt } from "./schema/walk.ts";

/** Setting that refers to another part of the file. */
export interface Reference {
  readonly path: Path;
  readonly names: PartName;
  /** The name as written. */
  readonly name: string;
  /** Mapping that the setting is in. */
  readonly within: Readonly<Record<string, unknown>>;
}

/** Finds all settings that refer to another part of the file; within a job, `after` first. */
export function findReferences(root: Schema, tree: unknown): readonly Reference[] {
  const found: Reference[] = [];
  function visit(value: unknown, path: Path, within: Reference["within"]): void {
    if (Array.isArray(value)) value.forEach((item, position) => visit(item, [...path, position], within));
    else if (typeof value === "object" && value !== null) {
      for (const [key, item] of Object.entries(value)) visit(item, [...path, key], { ...value });
    } else if (typeof value === "string") {
      const schema = schemaAt(root, path, tree);
      const names = schema && expectationOf(optionFor(schema, value) ?? schema)?.names;
      if (names) found.push({ path, names, name: value, within });
    }
  }
  visit(tree, [], {});
  const isAfter = ({ path }: Reference) => path[2] === "after";
  return [...found.filter(isAfter), ...found.filter((reference) => !isAfter(reference))];
}

/** Jobs that a job waits for: those in its settings, and those that its input comes from. */
export function dependenciesOf(
  references: readonly Reference[],
): readonly { readonly job: string; readonly waitsFor: string }[] {
  const ofJobs = references.filter(({ path }) => path[0] === "jobs");
  const ofInputs = references.filter(({ path, names }) => path[0] === "inputs" && names.part === "job");
  return ofJobs.flatMap(({ path, names, name }) => {
    const job = String(path[1]);
    if (names.part === "job") return [{ job, waitsFor: name }];
    const origins = names.part === "input" ? ofInputs.filter((origin) => origin.path[1] === name) : [];
    return origins.map((origin) => ({ job, waitsFor: origin.name }));
  });
}
