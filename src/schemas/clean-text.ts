import { rawNumber } from "../raw-json.ts";
import type { DriftLog } from "./drift.ts";

const REPLACEMENT = "\uFFFD";

function cleanString(value: string, path: string, drift: DriftLog): string {
  let cleaned = value;
  if (cleaned.includes("\u0000")) {
    drift.note("unexpected_type", path, "nul_character");
    cleaned = cleaned.replaceAll("\u0000", REPLACEMENT);
  }
  if (!cleaned.isWellFormed()) {
    drift.note("unexpected_type", path, "lone_surrogate");
    cleaned = cleaned.toWellFormed();
  }
  return cleaned;
}

/**
 * A copy of a parsed answer in which NUL and lone surrogates, which no warehouse can store, are U+FFFD; each place is
 * noted as drift. Keys are cleaned too. Only needed where the body has such an escape.
 */
export function cleanText(value: unknown, path: string, drift: DriftLog): unknown {
  if (typeof value === "string") return cleanString(value, path, drift);
  if (Array.isArray(value)) return value.map((item) => cleanText(item, `${path}[]`, drift));
  if (typeof value !== "object" || value === null || rawNumber(value) !== null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      const cleanKey = key.isWellFormed() && !key.includes("\u0000") ? key : cleanString(key, path, drift);
      return [cleanKey, cleanText(inner, path === "" ? cleanKey : `${path}.${cleanKey}`, drift)];
    }),
  );
}
