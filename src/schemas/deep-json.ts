import { rawNumber } from "../raw-json.ts";

/** A container whose members are being written. */
interface Level {
  /** Empty for an array. */
  readonly keys: readonly string[];
  readonly values: readonly unknown[];
  readonly end: "]" | "}";
  /** Index of the next member. */
  next: number;
}

function levelOf(value: object): Level {
  return Array.isArray(value)
    ? { keys: [], values: value, end: "]", next: 0 }
    : { keys: Object.keys(value), values: Object.values(value), end: "}", next: 0 };
}

/** Writes without recursion, so that no depth is too much. */
function writeLevels(root: object): string {
  const pieces: string[] = [];
  const open: Level[] = [];
  let value: unknown = root;
  for (;;) {
    if (typeof value === "object" && value !== null && rawNumber(value) === null) {
      pieces.push(Array.isArray(value) ? "[" : "{");
      open.push(levelOf(value));
    } else pieces.push(JSON.stringify(value));
    let level = open.at(-1);
    while (level && level.next === level.values.length) {
      pieces.push(level.end);
      open.pop();
      level = open.at(-1);
    }
    if (!level) return pieces.join("");
    const key = level.keys[level.next];
    if (level.next > 0) pieces.push(",");
    if (key !== undefined) pieces.push(JSON.stringify(key), ":");
    value = level.values[level.next++];
  }
}

/**
 * The text of a parsed JSON object or array, as JSON.stringify would write it; which gives up some thousand levels deep on
 * objects that it has no short way for.
 */
export function deepJson(value: object): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof RangeError) return writeLevels(value);
    throw error;
  }
}
