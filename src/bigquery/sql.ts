/** Quotes an identifier for statements built as plain text. */
export function quoteIdentifier(name: string): string {
  return `\`${name.replaceAll("\\", "\\\\").replaceAll("`", "\\`")}\``;
}

/** Quotes a text literal; only for our own texts and the configuration's, never for data. */
export function quoteLiteral(text: string): string {
  return `'${JSON.stringify(text).slice(1, -1).replaceAll("'", "\\'")}'`;
}

export function quoteQualified(parts: readonly string[]): string {
  return parts.map(quoteIdentifier).join(".");
}

/** A parameter of a statement; null is a STRING. */
export type Parameter = string | number | null | readonly string[];

/** Converts a value into a query parameter in the form of the API. */
export function parameterOf(name: string, value: Parameter): object {
  if (typeof value === "object" && value !== null) {
    return {
      name,
      parameterType: { type: "ARRAY", arrayType: { type: "STRING" } },
      parameterValue: { arrayValues: value.map((entry) => ({ value: entry })) },
    };
  }
  const type = typeof value === "number" ? "INT64" : "STRING";
  return { name, parameterType: { type }, parameterValue: { value: value === null ? null : String(value) } };
}

export interface ResultField {
  readonly name: string;
  readonly type: string;
  readonly mode?: string;
  readonly fields?: readonly ResultField[];
}

/** Value in the form of the API: text, null, `{f: cells}` for a STRUCT, or a list of `{v}`. */
interface RawCell {
  readonly v: unknown;
}

/** Row in the form of the API. */
export interface RawRow {
  readonly f: readonly RawCell[];
}

/**
 * A row by column name: INT64 as number, or as text beyond 2^53; NUMERIC, dates, JSON and bytes (base64) as text;
 * TIMESTAMP as `2026-11-21T04:00:00.1Z`; DATETIME as `2026-11-21T04:00:00.100000`; ARRAY and STRUCT as lists and objects.
 */
export function readRow(fields: readonly ResultField[], row: RawRow): Record<string, unknown> {
  return Object.fromEntries(fields.map((field, i) => [field.name, readCell(field, row.f[i]?.v ?? null)]));
}

function readCell(field: ResultField, value: unknown): unknown {
  if (field.mode === "REPEATED") {
    // The API's form of a repeated column.
    return ((value ?? []) as readonly RawCell[]).map(({ v }) => readCell({ ...field, mode: "" }, v));
  }
  if (value === null || value === undefined) return null;
  // The API's form of a STRUCT; everything else is text.
  if (typeof value === "object") return readRow(field.fields ?? [], value as RawRow);
  return typeof value === "string" ? readText(field.type, value) : value;
}

function readText(type: string, text: string): unknown {
  switch (type) {
    case "INTEGER":
    case "INT64":
      return Number.isSafeInteger(Number(text)) ? Number(text) : text;
    case "FLOAT":
    case "FLOAT64":
      return Number(text);
    case "BOOLEAN":
    case "BOOL":
      return text === "true";
    case "TIMESTAMP":
      return instantOf(text);
    default:
      return text;
  }
}

/** Converts microseconds since 1970 (text) to an ISO instant without trailing zeros. */
function instantOf(micros: string): string {
  const total = BigInt(micros);
  const million = 1_000_000n;
  const fraction = ((total % million) + million) % million;
  const seconds = new Date(Number((total - fraction) / million) * 1000).toISOString().slice(0, 19);
  const digits = fraction.toString().padStart(6, "0").replace(/0+$/, "");
  return digits === "" ? `${seconds}Z` : `${seconds}.${digits}Z`;
}
