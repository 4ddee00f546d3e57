import { rawNumber } from "../raw-json.ts";
import { type DriftLog, fieldName } from "./drift.ts";
import { MAX_JSON_DEPTH, nestedText } from "./json-text.ts";

const REPLACEMENT = "\uFFFD";

/** Replaces the characters of a string that no warehouse can store; records each kind as drift. */
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
  // Too deep to store as JSON; in its text, the characters are escaped.
  if (levels === 0) return nestedText(value);
  if (Array.isArray(value)) return value.map((item) => clean(item, `${path}[]`, levels - 1, drift));
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      const observed: string[] = [];
      const cleanKey = cleanString(key, (observedType) => observed.push(observedType));
      const innerPath = path === "" ? fieldName(cleanKey) : `${path}.${fieldName(cleanKey)}`;
      for (const observedType of observed) drift.note("unexpected_type", innerPath, observedType);
      return [cleanKey, clean(inner, innerPath, levels - 1, drift)];
    }),
  );
}

/**
 * Copies a parsed answer with NUL and lone surrogates, which no warehouse can store, replaced by U+FFFD; each path is
 * recorded as drift. Keys are cleaned too. Only needed if the body has such an escape.
 */
export function cleanText(value: unknown, path: string, drift: DriftLog): unknown {
  return clean(value, path, MAX_JSON_DEPTH, drift);
}
