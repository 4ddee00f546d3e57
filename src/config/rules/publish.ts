import { tables } from "../../schemas/registry.ts";
import type { Problems } from "../problems.ts";
import { entriesOf, type WrittenFile } from "../written-file.ts";

/** Checks that child tables are listed with their root, and that destinations differ. */
export function checkPublish({ publish }: WrittenFile, problems: Problems): void {
  const targets = new Map<string, string>();
  for (const [name, destination] of entriesOf(publish)) {
    const listed = destination.tables ?? [];
    for (const [at, table] of listed.entries()) {
      const parent = tables.find((declared) => declared.name === table)?.parent ?? null;
      if (parent === null || listed.includes(parent)) continue;
      problems.add(["publish", name, "tables", at], {
        message: `requires ${parent}, which isn't listed`,
        hint: `add ${parent}`,
      });
    }
    const target = destination.path ?? `${destination.project ?? ""}.${destination.dataset ?? "person_data"}`;
    const other = targets.get(target);
    if (other !== undefined) {
      problems.add(["publish", name], {
        message: `has the same target as ${other}`,
        hint: "each destination needs its own target",
      });
    }
    targets.set(target, name);
  }
}
