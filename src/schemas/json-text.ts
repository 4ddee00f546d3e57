import { type DriftLog, fieldName } from "./drift.ts";

/** Source text of a number that a double can't represent; null for any other value. */
export function rawNumber(value: unknown): string | null {
  return JSON.isRawJSON(value) ? value.rawJSON : null;
}

/** Exact JSON numbers of ES2025, which TypeScript's library does not declare yet. */
declare global {
  interface JSON {
    /** Object that JSON.stringify writes as the given number, digit for digit. */
    rawJSON(text: string): { readonly rawJSON: string };
    /** True if a value came from {@link JSON.rawJSON}. */
    isRawJSON(value: unknown): value is { readonly rawJSON: string };
  }
}

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

/** JSON nesting depth that every destination accepts (BigQuery: 500; Postgres: limited by its stack). */
const MAX_JSON_DEPTH = 200;

/** True for numbers that every destination's JSON accepts: any double, but not `1e999999`. */
const MODEST_NUMBER = /^-?\d{1,400}(?:\.\d{1,400})?(?:[eE][+-]?\d{1,3})?$/;

/** True if every destination can store a value as JSON. */
function isStorable(value: unknown, levels: number): boolean {
  const number = rawNumber(value);
  if (number !== null) return MODEST_NUMBER.test(number);
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((inner) => isStorable(inner, levels - 1));
}

function makeStorable(value: unknown, levels: number): unknown {
  const number = rawNumber(value);
  if (number !== null) return MODEST_NUMBER.test(number) ? value : number;
  if (typeof value !== "object" || value === null) return value;
  if (levels === 0) return nestedText(value);
  if (Array.isArray(value)) return value.map((item) => makeStorable(item, levels - 1));
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, makeStorable(inner, levels - 1)]),
  );
}

/** JSON text of a value below the last level; null if it is nested beyond what `JSON.stringify` takes. */
function nestedText(value: object): string | null {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** JSON text of a value; null if some destination can't store it. */
export function storableJson(value: unknown): string | null {
  return isStorable(value, MAX_JSON_DEPTH) ? JSON.stringify(value) : null;
}

/**
 * JSON text that every destination accepts. Values nested deeper than {@link MAX_JSON_DEPTH} and numbers out of range become
 * strings of their JSON, so that one unusual value can't fail its whole batch.
 */
export function jsonText(value: unknown): string {
  return storableJson(value) ?? JSON.stringify(makeStorable(value, MAX_JSON_DEPTH));
}
