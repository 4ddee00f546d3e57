import { type Path, type Problems, textOf } from "../problems.ts";

const FINGERPRINTS = "every run compares a fingerprint of each row, so no cursor is needed";

/** Keys that earlier versions took, with what happens instead; `*` stands for any name. */
const DROPPED = {
  "inputs.*.cursor": FINGERPRINTS,
  "inputs.*.cursor_overlap": FINGERPRINTS,
} as const;

/** Returns the file without keys that have no effect any more. Warns once per reason, at its first key. */
export function dropKeys(tree: object, warnings: Problems): object {
  const dropped = new Map<string, Path[]>();
  const kept = without(tree, [], (path) => {
    const instead = insteadOf(path);
    if (instead !== null) dropped.set(instead, [...(dropped.get(instead) ?? []), path]);
    return instead !== null;
  });
  for (const [instead, [first = [], ...others]] of dropped) {
    const also = others.length === 0 ? "" : `, and also ${others.map(textOf).join(", ")}`;
    warnings.add(first, { message: `has no effect any more: ${instead}`, hint: `remove it${also}` });
  }
  return Object(kept);
}

function insteadOf(path: Path): string | null {
  const found = Object.entries(DROPPED).find(([dropped]) => {
    const steps = dropped.split(".");
    return steps.length === path.length && steps.every((step, i) => step === "*" || step === path[i]);
  });
  return found?.[1] ?? null;
}

/** The value without the keys at dropped paths, at any depth. */
function without(value: unknown, path: Path, isDropped: (path: Path) => boolean): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, item]) => {
      const at = [...path, key];
      return isDropped(at) ? [] : [[key, without(item, at, isDropped)]];
    }),
  );
}
