import { gunzipSync } from "node:zlib";
import { parseExact } from "../../src/extract/exact-json.ts";
import { rawNumber } from "../../src/raw-json.ts";
import type { WireBody } from "./byte-mutations.ts";

/** A JSON number by its source text, in place of what a double would make of it. */
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

/** What an answer says, read as a whole. */
export interface Reading {
  readonly results: readonly unknown[];
  /** Numbers are {@link Numeral}s; false where the body is nested deeper than a reviver goes, so that doubles have to do. */
  readonly isExact: boolean;
  /** When the service says that it completed the call. */
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
 * The results of an answer, read as a whole and with nothing but the platform's own functions; null where it can't be
 * read or holds no list of results.
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

/** True for a body that may count as unreadable: nested too deep beside a number that no double carries. */
export function isTooDeep(body: WireBody): boolean {
  try {
    parseExact(new TextDecoder("utf-8").decode(decode(body) ?? Buffer.alloc(0)));
    return false;
  } catch (error) {
    return error instanceof SyntaxError && error.cause instanceof RangeError;
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

/** What stands in a text as JSON; undefined for any other text. */
function parseText(text: string): unknown {
  try {
    return parseExact(text);
  } catch {
    return undefined;
  }
}

/** Of names that become equal once they can be stored, the last counts. */
function membersOf(object: object): ReadonlyMap<string, unknown> {
  return new Map(Object.entries(object).map(([name, value]) => [storable(name), value]));
}

/** Which differences count as none. */
export interface Leniency {
  /** Numbers of any value, and null: where digits are lost to doubles. */
  readonly numbers?: boolean;
  /** The text of a value's JSON in place of the value: what is nested too deep to be stored is kept so. */
  readonly nesting?: boolean;
}

function isNestedText(text: unknown, value: unknown, pairs: [unknown, unknown][]): boolean {
  if (typeof text !== "string" || typeof value !== "object" || value === null) return false;
  const inner = parseText(text);
  if (inner === undefined) return false;
  pairs.push([inner, value]);
  return true;
}

/** Whether two values are equal, however deep: numbers to the last digit, texts but for what no database stores. */
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
