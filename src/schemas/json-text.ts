import { rawNumber } from "../raw-json.ts";
import { deepJson } from "./deep-json.ts";

/** Levels of nesting that every warehouse's JSON takes (BigQuery: 500; Postgres: as its stack allows). */
export const MAX_JSON_DEPTH = 200;

/** Numbers that every warehouse's JSON takes; a double always is one, but not `1e999999`. */
const MODEST_NUMBER = /^-?\d{1,400}(?:\.\d{1,400})?(?:[eE][+-]?\d{1,3})?$/;

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
  if (levels === 0) return deepJson(value);
  if (Array.isArray(value)) return value.map((item) => makeStorable(item, levels - 1));
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, makeStorable(inner, levels - 1)]),
  );
}

/**
 * A value as JSON text that every warehouse takes, so that one odd value can't cost its whole batch: what is nested
 * deeper than {@link MAX_JSON_DEPTH} stands there as a string of its JSON, a number beyond all bounds as a string too.
 */
export function jsonText(value: unknown): string {
  return JSON.stringify(isStorable(value, MAX_JSON_DEPTH) ? value : makeStorable(value, MAX_JSON_DEPTH));
}
