import { tables } from "../../schemas/registry.ts";
import type { Problems } from "../problems.ts";
import { entriesOf, type WrittenFile } from "../written-file.ts";

/** A child's rows are selected by its root, so it can't be published alone; two destinations can't share a place. */
export function checkPublish({ publish }: WrittenFile, problems: Problems): void {
  const places = new Map<string, string>();
  for (const [name, destination] of entriesOf(publish)) {
    const listed = destination.tables ?? [];
    for (const [at, table] of listed.entries()) {
      const parent = tables.find((declared) => declared.name === table)?.parent ?? null;
      if (parent === null || listed.includes(parent)) continue;
      problems.add(["publish", name, "tables", at], {
        message: `is published with the rows of ${parent}, which isn't listed`,
        hint: `add ${parent}`,
      });
    }
    const place = destination.path ?? `${destination.project ?? ""}.${destination.dataset ?? "person_data"}`;
    const other = places.get(place);
    if (other !== undefined) {
      problems.add(["publish", name], {
        message: `publishes to the same place as ${other}`,
        hint: "each destination needs a place of its own",
      });
    }
    places.set(place, name);
  }
}
