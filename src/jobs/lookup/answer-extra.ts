import type { JsonObject } from "../../schemas/flatten.ts";

/** Values by field name, for `_extra`. */
export type Extra = Record<string, unknown> | null;

/** Values for which `picks` is true; null if there are none. */
export function pickExtra(from: JsonObject | null, picks: (name: string, value: unknown) => boolean): Extra {
  if (from === null) return null;
  const picked = Object.entries(from).filter(([name, value]) => picks(name, value));
  // fromEntries, because a field may be named __proto__.
  return picked.length === 0 ? null : Object.fromEntries(picked);
}

/** Merges two objects; null if both are. */
export function mergeExtra(a: Extra, b: Extra): Extra {
  if (a === null || b === null) return a ?? b;
  return Object.fromEntries([...Object.entries(a), ...Object.entries(b)]);
}
