import { gunzipSync } from "node:zlib";
import { parseExact, TooDeepError } from "../../src/extract/json.ts";
import { rawNumber } from "../../src/schemas/convert.ts";
import type { WireBody } from "./byte-mutations.ts";

/** A JSON number by its source text, not as a double. */
export class Numeral {
  readonly source: string;
  constructor(source: string) {
    this.source = source;
  }
}

function decode({ contentEncoding, bytes }: WireBody): Buffer | null {
  const encoding = (contentEncoding ?? "").trim().toLowerCase();
  if (encoding === "" || encoding === "identity") return bytes;
  if (encoding !== "gzip" && encoding !== "x-gzip") return null;
  try {
    return gunzipSync(bytes);
  } catch {
    return null;
  }
}

/** Content of an answer, parsed as a whole. */
export interface Reading {
  readonly results: readonly unknown[];
  /** Numbers are {@link Numeral}s; false if the body is nested too deeply for a reviver, so that doubles are used. */
  readonly isExact: boolean;
  /** Completion time of the call, by the service's clock. */
  readonly completedAt: unknown;
}

function parseWhole(text: string): { readonly parsed: unknown; readonly isExact: boolean } {
  try {
    const parsed = JSON.parse(text, (_key, value: unknown, { source }: { readonly source?: string }) =>
      typeof value === "number" && source !== undefined ? new Numeral(source) : value,
    );
    return { parsed, isExact: true };
  } catch (error) {
    if (error instanceof RangeError) return { parsed: JSON.parse(text), isExact: false };
    throw error;
  }
}

/**
 * Results of an answer, parsed as a whole with the platform's own functions; null if it can't be
 * parsed or has no list of results.
 */
export function readWhole(body: WireBody): Reading | null {
  const bytes = decode(body);
  if (bytes === null) return null;
  try {
    const { parsed, isExact } = parseWhole(new TextDecoder("utf-8").decode(bytes));
    if (typeof parsed !== "object" || parsed === null || !("results" in parsed)) return null;
    const completedAt = "request_completed_at" in parsed ? parsed.request_completed_at : null;
    return Array.isArray(parsed.results) ? { results: parsed.results, isExact, completedAt } : null;
  } catch {
    return null;
  }
}

/** A number as sign, digits without zeros at the ends, and the power of ten of the last digit. */
function numberForm(source: string): string {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/u.exec(source) ?? [];
  const digits = (whole + fraction).replace(/^0+/u, "");
  const kept = digits.replace(/0+$/u, "");
  return kept === ""
    ? "0"
    : `${sign}${kept}e${BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - kept.length)}`;
}

function sourceOf(value: unknown): string | null {
  if (value instanceof Numeral) return value.source;
  return typeof value === "number" ? String(value) : rawNumber(value);
}

function isNumberOrNull(value: unknown, source: string | null): boolean {
  return value === null || source !== null;
}

function storable(text: string): string {
  return text.replaceAll("\0", "\uFFFD").toWellFormed();
}

/** Value of a text that is JSON; undefined for other text. Without exact numbers if it is nested too deeply for them. */
function parseText(text: string): unknown {
  try {
    return parseExact(text);
  } catch (error) {
    return error instanceof TooDeepError ? JSON.parse(text) : undefined;
  }
}

/** Among names that become equal when stored, the last one counts. */
function membersOf(object: object): ReadonlyMap<string, unknown> {
  return new Map(Object.entries(object).map(([name, value]) => [storable(name), value]));
}

/** Differences to ignore. */
export interface Leniency {
  /** Numbers of any value, and null: if doubles lose digits. */
  readonly numbers?: boolean;
  /** JSON text instead of a value: the stored form of values that are nested too deeply. */
  readonly nesting?: boolean;
}

function isNestedText(text: unknown, value: unknown, pairs: [unknown, unknown][]): boolean {
  if (typeof text !== "string" || typeof value !== "object" || value === null) return false;
  const inner = parseText(text);
  if (inner === undefined) return false;
  pairs.push([inner, value]);
  return true;
}

/** True if two values are equal at any depth: numbers to the last digit, texts except for characters that no database stores. */
export function isSame(one: unknown, other: unknown, leniency: Leniency = {}): boolean {
  const pairs: [unknown, unknown][] = [[one, other]];
  for (let pair = pairs.pop(); pair; pair = pairs.pop()) {
    const [a, b] = pair;
    if (a === b) continue;
    const [aSource, bSource] = [sourceOf(a), sourceOf(b)];
    if (leniency.numbers && isNumberOrNull(a, aSource) && isNumberOrNull(b, bSource)) continue;
    if (aSource !== null || bSource !== null) {
      if (aSource === null || bSource === null) return false;
      if (aSource !== bSource && numberForm(aSource) !== numberForm(bSource)) return false;
      continue;
    }
    if (typeof a === "string" && typeof b === "string" && storable(a) === storable(b)) continue;
    if (leniency.nesting && (isNestedText(a, b, pairs) || isNestedText(b, a, pairs))) continue;
    if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
    if (Array.isArray(a) !== Array.isArray(b)) return false;
    const [aMembers, bMembers] = [membersOf(a), membersOf(b)];
    if (aMembers.size !== bMembers.size) return false;
    for (const [name, value] of aMembers) {
      if (!bMembers.has(name)) return false;
      pairs.push([value, bMembers.get(name)]);
    }
  }
  return true;
}
