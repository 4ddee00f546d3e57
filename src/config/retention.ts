import { type Path, type Problems, textOf } from "./problems.ts";
import { mappingAt } from "./schema/settings.ts";
import { daysOf } from "./schema/times.ts";

/** A setting of `retention`: the keys by table that it replaces, and its least value in days. */
interface Group {
  readonly replaced: readonly string[];
  readonly leastDays: number;
}

const GROUPS: Readonly<Record<string, Group>> = {
  history: { replaced: ["match_history", "person_history", "segment_membership_history"], leastDays: 1 },
  operations: {
    replaced: ["sync_run", "api_call", "input_coverage", "segment_sync", "person_search_quota"],
    leastDays: 30,
  },
  rejects: { replaced: ["reject"], leastDays: 1 },
};

/**
 * Replaces limits by table, which earlier versions took, by the limit of their group, so that nothing is kept longer than the
 * longest of them. Returns the file without them, and warns once per group.
 */
export function carryRetention(tree: object, warnings: Problems, problems: Problems): object {
  const retention: Record<string, unknown> = { ...mappingAt(tree, "retention") };
  const names = Object.values(GROUPS).flatMap(({ replaced }) => replaced);
  if (!names.some((name) => Object.hasOwn(retention, name))) return tree;
  for (const [group, { replaced, leastDays }] of Object.entries(GROUPS)) {
    const written = replaced.filter((name) => Object.hasOwn(retention, name));
    const values = written.map((name) => retention[name]).filter((value) => value !== null);
    for (const name of written) Reflect.deleteProperty(retention, name);
    const paths = written.map((name): Path => ["retention", name]);
    const [first] = paths;
    if (first === undefined) continue;
    const setting = `retention.${group}`;
    const all = paths.map(textOf).join(", ");
    if ((retention[group] ?? null) !== null || values.length === 0) {
      warnings.add(first, `no longer has an effect: ${setting} applies`, `remove ${all}`);
      continue;
    }
    const carried = longest(values, leastDays);
    if (carried === null) {
      problems.add(
        first,
        `was replaced by ${setting}, and can't be converted`,
        `write ${setting} instead of ${all}`,
      );
      continue;
    }
    retention[group] = carried;
    const shown = /^\d+d$/.test(carried) ? `: ${carried}` : "";
    const message = `was replaced by ${setting}, which now has the longest of the old values${shown}`;
    warnings.add(first, message, `write ${setting}${shown} instead of ${all}`);
  }
  return { ...tree, retention };
}

/** Longest of the values; null if they can't be compared. A single value with a variable stays as written. */
function longest(values: readonly unknown[], leastDays: number): string | null {
  const days = values.map((value) => (typeof value === "string" ? daysOf(value) : null));
  if (days.every((one) => one !== null)) return `${Math.max(leastDays, ...days)}d`;
  const [first] = values;
  const isSame = values.every((value) => value === first);
  return isSame && typeof first === "string" && first.includes("${") ? first : null;
}
