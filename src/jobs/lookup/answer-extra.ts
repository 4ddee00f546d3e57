import type { JsonObject } from "../../schemas/flatten.ts";

/** Values by field name, for `_extra`. */
export type Extra = Record<string, unknown> | null;

/** The values that a test picks; null when there are none. */
export function pickExtra(from: JsonObject | null, picks: (name: string, value: unknown) => boolean): Extra {
  if (from === null) return null;
  const picked = Object.entries(from).filter(([name, value]) => picks(name, value));
  // fromEntries, because a field may be called __proto__.
  return picked.length === 0 ? null : Object.fromEntries(picked);
}

/** Both together; null when there is nothing. */
export function mergeExtra(a: Extra, b: Extra): Extra {
  if (a === null || b === null) return a ?? b;
  return Object.fromEntries([...Object.entries(a), ...Object.entries(b)]);
}
