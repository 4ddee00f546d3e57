/**
 * A second, plain reader of the service's answers, for comparison only. It shares no code with `src/`. Columns and
 * types come from the database, everything else from the interface and the contract.
 */

/** A JSON number by its digits. */
export class Digits {
  readonly source: string;
  constructor(source: string) {
    this.source = source;
  }
}

/** A parsed JSON object, numbers as {@link Digits}. */
export type Plain = Record<string, unknown>;

/** Parses JSON without losing a digit. */
export function parsePlain(text: string): unknown {
  return JSON.parse(text, (_key, value: unknown, context: { source?: string }) =>
    typeof value === "number" ? new Digits(context.source ?? "") : value,
  );
}

/** True for an object that isn't a list or a number. */
export function isPlain(value: unknown): value is Plain {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Digits);
}

/** Text as a warehouse stores it. */
export function storable(text: string): string {
  return text.replaceAll("\0", "\uFFFD").toWellFormed();
}

/** Decimal without exponent and redundant zeros; null for other text. */
export function plainDecimal(source: string): string | null {
  const parts = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(source);
  if (!parts) return null;
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = parts;
  let digits = BigInt(whole + fraction);
  let scale = fraction.length - Number(exponent);
  for (; scale < 0; scale++) digits *= 10n;
  for (; scale > 0 && digits % 10n === 0n; scale--) digits /= 10n;
  const text = String(digits).padStart(scale + 1, "0");
  const value = scale === 0 ? text : `${text.slice(0, -scale)}.${text.slice(-scale)}`;
  return digits === 0n ? "0" : sign + value;
}

/** JSON in normal form: sorted keys, plain decimals, storable text. */
export function canonicalJson(value: unknown): string {
  if (value instanceof Digits) return plainDecimal(value.source) ?? value.source;
  if (typeof value === "string") return JSON.stringify(storable(value));
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (!isPlain(value)) return JSON.stringify(value);
  const members = Object.entries(value).map(
    ([key, inner]) => `${JSON.stringify(storable(key))}:${canonicalJson(inner)}`,
  );
  return `{${members.toSorted().join(",")}}`;
}

/** Instant or wall time as digits down to the microsecond, with the zone applied; null for other text. */
export function microseconds(text: string): string | null {
  const parts = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d(?::?\d\d)?)?$/.exec(text);
  if (!parts) return null;
  const [, day = "", time = "", fraction = "", zone = "Z"] = parts;
  const offset = /^[+-]\d\d$/.test(zone) ? `${zone}:00` : zone;
  const ms = Date.parse(`${day}T${time}${offset}`);
  return Number.isNaN(ms) ? null : `${ms / 1000}.${fraction.padEnd(6, "0").slice(0, 6)}`;
}

const DAY = /^\d{4}-\d\d-\d\d$/;
const YES = new Set(["true", "Y", "1"]);
const NO = new Set(["false", "N", "0"]);

/** Expected value of a column of that type; undefined for a value of another type. */
export function expectedCell(value: unknown, type: string, column: string): string | null | undefined {
  if (value === null || value === undefined) return null;
  const text = value instanceof Digits ? value.source : typeof value === "string" ? storable(value) : null;
  switch (type) {
    case "text":
      return typeof value === "string" ? (text ?? undefined) : undefined;
    case "boolean":
      if (typeof value === "boolean") return String(value);
      if (column !== "is_current_owner" || text === null) return undefined;
      return YES.has(text) ? "true" : NO.has(text) ? "false" : undefined;
    case "numeric": {
      const decimal = text === null ? null : plainDecimal(text);
      return decimal !== null && /^-?\d{1,18}(?:\.\d{1,20})?$/.test(decimal) ? decimal : undefined;
    }
    case "bigint":
    case "integer": {
      const decimal = text === null ? null : plainDecimal(text);
      if (decimal === null || decimal.includes(".")) return undefined;
      return BigInt.asIntN(64, BigInt(decimal)) === BigInt(decimal) ? decimal : undefined;
    }
    case "date":
      return text !== null && DAY.test(text) ? text : undefined;
    case "timestamp with time zone":
    case "timestamp without time zone":
      return text === null ? undefined : (microseconds(text) ?? undefined);
    case "jsonb":
    case "json":
      return canonicalJson(value);
    default:
      throw new Error(`No column is expected to be ${type}.`);
  }
}

/** A stored value (as text) in the form of {@link expectedCell}. */
export function storedCell(text: string | null, type: string): string | null {
  if (text === null) return null;
  if (type === "numeric") return plainDecimal(text);
  if (type.startsWith("timestamp")) return microseconds(text);
  if (type === "jsonb" || type === "json") return canonicalJson(parsePlain(text));
  return text;
}

/** Types of a table's columns, by name. */
export type ColumnTypes = Readonly<Record<string, string>>;

/** Fields of an object as cells of a table, and fields without a column. */
export function readFields(
  object: Plain,
  columns: ColumnTypes,
  skipped: ReadonlySet<string>,
): { readonly cells: Record<string, string | null>; readonly extra: Plain } {
  const cells: Record<string, string | null> = {};
  const extra: Plain = {};
  for (const [name, value] of Object.entries(object)) {
    if (skipped.has(name)) continue;
    const type = columns[name];
    const cell = type === undefined ? undefined : expectedCell(value, type, name);
    if (cell === undefined) extra[name] = value;
    if (type !== undefined) cells[name] = cell ?? null;
  }
  return { cells, extra };
}

/** `_extra` in the form of {@link expectedCell}. */
export function extraOf(extra: Plain): string | null {
  return Object.keys(extra).length === 0 ? null : canonicalJson(extra);
}
