import { rawNumber } from "../raw-json.ts";
import type { DriftLog } from "./drift.ts";
import { MAX_JSON_DEPTH, nestedText } from "./json-text.ts";

const REPLACEMENT = "\uFFFD";

/** A string as every warehouse can store it, and a note for each thing that had to be replaced. */
function cleanString(value: string, note: (observedType: string) => void): string {
  let cleaned = value;
  if (cleaned.includes("\u0000")) {
    note("nul_character");
    cleaned = cleaned.replaceAll("\u0000", REPLACEMENT);
  }
  if (!cleaned.isWellFormed()) {
    note("lone_surrogate");
    cleaned = cleaned.toWellFormed();
  }
  return cleaned;
}

function clean(value: unknown, path: string, levels: number, drift: DriftLog): unknown {
  if (typeof value === "string") {
    return cleanString(value, (observedType) => drift.note("unexpected_type", path, observedType));
  }
  if (typeof value !== "object" || value === null || rawNumber(value) !== null) return value;
  // Too deep to be stored as JSON; its text has escapes instead of the characters themselves.
  if (levels === 0) return nestedText(value);
  if (Array.isArray(value)) return value.map((item) => clean(item, `${path}[]`, levels - 1, drift));
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      const observed: string[] = [];
      const cleanKey = cleanString(key, (observedType) => observed.push(observedType));
      const innerPath = path === "" ? cleanKey : `${path}.${cleanKey}`;
      for (const observedType of observed) drift.note("unexpected_type", innerPath, observedType);
      return [cleanKey, clean(inner, innerPath, levels - 1, drift)];
    }),
  );
}

/**
 * A copy of a parsed answer in which NUL and lone surrogates, which no warehouse can store, are U+FFFD; each place is
 * noted as drift. Keys are cleaned too. Only needed where the body has such an escape.
 */
export function cleanText(value: unknown, path: string, drift: DriftLog): unknown {
  return clean(value, path, MAX_JSON_DEPTH, drift);
}
