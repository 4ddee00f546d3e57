import type { ColumnType, Field } from "./field.ts";

/**
 * Returns the name of an unknown field for a path; `?` if it doesn't look like one of the service's, which start in lower case: maps
 * can have addresses, PIDs or names of people as keys.
 */
export function fieldName(name: string): string {
  const digits = name.replaceAll(/\D/gu, "").length;
  return /^[a-z_]\w{0,62}$/u.test(name) && digits <= 4 ? name : "?";
}

/** One difference between an endpoint's answers and the declaration. */
export interface Drift {
  /** Method and path, `POST /v2/enrich`. */
  readonly endpoint: string;
  /** Path within the result record, `[]` for lists: `address_history[].new_field`. */
  readonly path: string;
  readonly kind: "unknown_field" | "unexpected_type";
  /** JSON type last seen, or `nul_character`, `lone_surrogate`. */
  observedType: string;
  occurrences: number;
}

/** Path of a record in the envelope of a list. */
const IN_ENVELOPE = /^results(?:\.items)?\[\]\./u;

/** Members of any response (interface section 2.1). */
const COMMON_MEMBERS = ["api_request_id", "request_completed_at", "results"];

/** Counts differences by path and kind; bounded, so that a hostile answer can't fill memory or the table. */
export class DriftLog {
  static readonly maxEntries = 1000;
  /** Longer paths are truncated: they are part of a key, and index entries are limited (Postgres: 2,704 bytes). */
  static readonly maxPathLength = 400;
  readonly #endpoint: string;
  readonly #entries = new Map<string, Drift>();

  constructor(endpoint: string) {
    this.#endpoint = endpoint;
  }

  /** @param fullPath from the record or from the envelope; stored from the record */
  note(kind: Drift["kind"], fullPath: string, observedType: string): void {
    const ofRecord = fullPath.replace(IN_ENVELOPE, "");
    const isLong = ofRecord.length > DriftLog.maxPathLength;
    const path = isLong ? ofRecord.slice(0, DriftLog.maxPathLength).toWellFormed() : ofRecord;
    const key = `${kind} ${path}`;
    const known = this.#entries.get(key);
    if (known) {
      known.occurrences += 1;
      known.observedType = observedType;
    } else if (this.#entries.size < DriftLog.maxEntries) {
      this.#entries.set(key, { endpoint: this.#endpoint, path, kind, observedType, occurrences: 1 });
    }
  }

  /** Notes the members of a response around its records that aren't declared, as `response.NAME`. */
  noteAround(body: Readonly<Record<string, unknown>>, declared: readonly string[]): void {
    for (const name of Object.keys(body)) {
      const isKnown = COMMON_MEMBERS.includes(name) || declared.includes(name);
      if (!isKnown) this.note("unknown_field", `response.${fieldName(name)}`, jsonType(body[name]));
    }
  }

  /** Recorded differences, sorted by path and kind. */
  entries(): readonly Drift[] {
    return [...this.#entries.values()].toSorted((a, b) =>
      a.path === b.path ? (a.kind < b.kind ? -1 : 1) : a.path < b.path ? -1 : 1,
    );
  }
}

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
export const MAX_JSON_DEPTH = 200;

const MODEST_NUMBER = /^-?\d{1,400}(?:\.\d{1,400})?(?:[eE][+-]?\d{1,3})?$/;

/** True for numbers that every destination's JSON accepts: within the range of doubles, and not too long. */
function isModest(number: string): boolean {
  return MODEST_NUMBER.test(number) && Number.isFinite(Number(number));
}

/** Returns the value itself if every destination can store it as JSON, otherwise one in its place. */
function makeStorable(value: unknown, levels = MAX_JSON_DEPTH): unknown {
  const number = rawNumber(value);
  if (number !== null) return isModest(number) ? value : number;
  if (typeof value !== "object" || value === null) return value;
  if (levels === 0) return nestedText(value);
  const inner: readonly unknown[] = Object.values(value);
  const made = inner.map((item) => makeStorable(item, levels - 1));
  if (made.every((item, i) => item === inner[i])) return value;
  return Array.isArray(value)
    ? made
    : Object.fromEntries(Object.keys(value).map((key, i) => [key, made[i]] as const));
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

/**
 * JSON text that every destination accepts. Values nested deeper than {@link MAX_JSON_DEPTH} and numbers out of range become
 * strings of their JSON, so that one unusual value can't fail its whole batch.
 */
export function jsonText(value: unknown): string {
  return JSON.stringify(makeStorable(value));
}

/**
 * One value of a row in its warehouse-neutral text form, or null. Numbers are decimal text, booleans `true`/`false`,
 * days `YYYY-MM-DD`, instants `YYYY-MM-DDTHH:MM:SS[.ffffff]+00:00` (any offset), json is JSON text, lists are array literals of Postgres.
 */
export type Cell = string | null;

/** Marks a value of another type than declared; it goes to `_extra` unchanged. */
export const UNEXPECTED = Symbol("unexpected");

/** Converts a value from the wire that is neither null nor undefined. */
export type Convert = (value: unknown) => Cell | typeof UNEXPECTED;

const DECIMAL = /^-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?$/;

/** Digits before and after the decimal point that every destination stores exactly: DuckDB's DECIMAL(38, 20). */
const MAX_WHOLE_DIGITS = 18;

const MAX_FRACTION_DIGITS = 20;

/** Decimal strings that {@link plainDecimal} returns unchanged. */
const PLAIN = /^(?:0|[1-9]\d{0,17})(?:\.\d{1,20})?$/;

/** Largest exponent to write out; no larger number fits. */
const MAX_SHIFT = 40;

function decimalText(value: unknown, maxWholeDigits = MAX_WHOLE_DIGITS): string | null {
  if (typeof value === "number") {
    if (!Number.isFinite(value)) return null;
    const text = String(value);
    return Number.isSafeInteger(value) || PLAIN.test(text) ? text : plainDecimal(text, maxWholeDigits);
  }
  const source = typeof value === "string" ? value : rawNumber(value);
  if (source === null || PLAIN.test(source)) return source;
  return DECIMAL.test(source) ? plainDecimal(source, maxWholeDigits) : null;
}

/** Writes a decimal plainly and exactly: `1.25e5` as `125000`, `007.5` as `7.5`; null if it has too many digits. */
function plainDecimal(source: string, maxWholeDigits: number): string | null {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(source);
  if (!match) return null;
  const [, sign = "", whole = "", fraction = "", exponentText = "0"] = match;
  const exponent = Number(exponentText);
  let digits = whole + fraction;
  let point = whole.length + exponent;
  if (point < 0) {
    if (-point > MAX_SHIFT + digits.length) return /^0*$/.test(digits) ? "0" : null;
    digits = "0".repeat(-point) + digits;
    point = 0;
  } else if (point > digits.length) {
    if (/^0*$/.test(digits)) return "0";
    if (point - digits.length > MAX_SHIFT) return null;
    digits += "0".repeat(point - digits.length);
  }
  const before = digits.slice(0, point).replace(/^0+(?=\d)/, "") || "0";
  let after = digits.slice(point);
  if (exponent !== 0 || after.length > MAX_FRACTION_DIGITS) after = after.replace(/0+$/, "");
  if (before.length > maxWholeDigits || after.length > MAX_FRACTION_DIGITS) return null;
  const text = after === "" ? before : `${before}.${after}`;
  return sign !== "" && /[1-9]/.test(text) ? `-${text}` : text;
}

const MAX_INT64 = 2n ** 63n - 1n;

const MIN_INT64 = -(2n ** 63n);

const INT64_DIGITS = 19;

function convertInteger(value: unknown): Cell | typeof UNEXPECTED {
  if (typeof value === "number" && Number.isSafeInteger(value)) return value === 0 ? "0" : String(value);
  const text = decimalText(value, INT64_DIGITS)?.replace(/\.0+$/, "");
  if (text === undefined || !/^-?\d+$/.test(text)) return UNEXPECTED;
  const whole = BigInt(text);
  return whole >= MIN_INT64 && whole <= MAX_INT64 ? text : UNEXPECTED;
}

const convertText: Convert = (value) => (typeof value === "string" ? value : UNEXPECTED);

const TRUE_WORDS = new Set(["true", "t", "y", "yes", "1"]);

const FALSE_WORDS = new Set(["false", "f", "n", "no", "0"]);

/** Boolean of a value, also spelled "true", "Y" or 1; null if it is none. */
export function booleanOf(value: unknown): boolean | null {
  if (typeof value === "boolean") return value;
  if (typeof value !== "string" && typeof value !== "number") return null;
  const word = String(value).trim().toLowerCase();
  if (TRUE_WORDS.has(word)) return true;
  return FALSE_WORDS.has(word) ? false : null;
}

const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** True for a day of the Gregorian calendar, from year 1 on. */
export function isCalendarDay(year: number, month: number, day: number): boolean {
  if (year < 1 || month < 1 || month > 12 || day < 1) return false;
  const isLeap = month === 2 && year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return day <= (DAYS[month - 1] ?? 0) + (isLeap ? 1 : 0);
}

function convertDate(value: unknown): Cell | typeof UNEXPECTED {
  if (typeof value !== "string") return UNEXPECTED;
  const match = /^(\d{4})-(\d{2})-(\d{2})(?:[T ]00:00:00(?:\.0+)?(?:Z|\+00:?00)?)?$/.exec(value);
  if (!match || !isCalendarDay(Number(match[1]), Number(match[2]), Number(match[3]))) return UNEXPECTED;
  return value.slice(0, 10);
}

const TIMESTAMP =
  /^(\d{4})-(\d{2})-(\d{2})[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s?(?:([Zz])|([+-])(\d{2}):?(\d{2})?)?$/;

/**
 * Instant as `…+00:00` in UTC, with microseconds, further digits cut; null if it isn't one, or of a year outside 0001–9999.
 * Without a zone it counts as UTC.
 */
export function instantText(value: unknown): string | null {
  const match = typeof value === "string" ? TIMESTAMP.exec(value) : null;
  if (!match) return null;
  const [, year = "", month = "", day = "", hour = "", minute = "", second = "00", fraction = ""] = match;
  const [sign, zoneHours = "0", zoneMinutes = "00"] = match.slice(9);
  if (!isCalendarDay(Number(year), Number(month), Number(day))) return null;
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59 || Number(zoneMinutes) > 59)
    return null;
  const offsetMinutes = Number(zoneHours) * 60 + Number(zoneMinutes);
  if (offsetMinutes >= 15 * 60) return null;
  let seconds = `${year}-${month}-${day}T${hour}:${minute}:${second}`;
  if (offsetMinutes !== 0) {
    const moved = Date.parse(`${seconds}Z`) - (sign === "-" ? -offsetMinutes : offsetMinutes) * 60_000;
    seconds = new Date(moved).toISOString().slice(0, 19);
    // Years beyond four digits have a sign.
    if (!/^\d{4}-/.test(seconds) || seconds.startsWith("0000")) return null;
  }
  return `${seconds}${fraction === "" ? "" : `.${fraction.slice(0, 6)}`}+00:00`;
}

/** Instant in the form of {@link instantText}. @param atMs milliseconds since the epoch */
export const instantAt = (atMs: number): string => new Date(atMs).toISOString().replace("Z", "+00:00");

/** Microseconds since the epoch of an instant in UTC, in the form of {@link instantText} or of a warehouse (`…Z`). */
export function microsOf(instant: string): number {
  const [, fraction = ""] = /\.(\d+)/.exec(instant) ?? [];
  return Date.parse(`${instant.slice(0, 19)}Z`) * 1000 + Number(fraction.slice(0, 6).padEnd(6, "0"));
}

function arrayLiteral(items: readonly string[]): string {
  return `{${items.map((item) => `"${item.replace(/["\\]/g, "\\$&")}"`).join(",")}}`;
}

/** Cell of an empty list; never null. */
export const EMPTY_LIST = "{}";

/** Cell with the texts of a list, and its other items by index; null if all items are texts. */
export function splitTexts(items: readonly unknown[]): {
  readonly cell: string;
  readonly misplaced: ReadonlyMap<number, unknown> | null;
} {
  const texts = items.filter((item) => typeof item === "string");
  if (texts.length === items.length) return { cell: arrayLiteral(texts), misplaced: null };
  const misplaced = [...items.entries()].filter(([, item]) => typeof item !== "string");
  return { cell: arrayLiteral(texts), misplaced: new Map(misplaced) };
}

function convertTexts(value: unknown): Cell | typeof UNEXPECTED {
  if (!Array.isArray(value)) return UNEXPECTED;
  const { cell, misplaced } = splitTexts(value);
  return misplaced === null ? cell : UNEXPECTED;
}

const byType: Record<Exclude<ColumnType, "bytes">, Convert> = {
  text: convertText,
  uuid: convertText,
  integer: convertInteger,
  position: convertInteger,
  numeric: (value) => decimalText(value) ?? UNEXPECTED,
  boolean: (value) => booleanOf(value)?.toString() ?? UNEXPECTED,
  date: convertDate,
  timestamptz: (value) => instantText(value) ?? UNEXPECTED,
  timestamp: (value) => instantText(value)?.slice(0, -"+00:00".length) ?? UNEXPECTED,
  json: (value) => (makeStorable(value) === value ? JSON.stringify(value) : UNEXPECTED),
  "text[]": convertTexts,
};

/** Returns the converter of a declared field. */
export function converterOf({ type }: Pick<Field, "type">): Convert {
  if (type === "bytes") throw new Error("The service interface has no binary fields.");
  return byType[type];
}

/** PID of a value; null unless it is a text that isn't blank. */
export function pidOf(value: unknown): string | null {
  return typeof value === "string" && value.trim() !== "" ? value : null;
}

/** JSON type of a value, as in `schema_drift.observed_type`. */
export function jsonType(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return rawNumber(value) === null ? typeof value : "number";
}

/** Count from a number or text; null for anything else, or if it is too large to be exact. */
export function countOf(value: unknown): number | null {
  const text = convertInteger(value);
  const count = typeof text === "string" ? Number(text) : Number.NaN;
  return Number.isSafeInteger(count) && count >= 0 ? count : null;
}
