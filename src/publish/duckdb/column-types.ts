import type { ColumnType } from "../../schemas/field.ts";

/** DuckDB's equivalent of a declared type. */
interface DuckType {
  /** Type of the column. */
  readonly type: string;
  /** Expression that converts the text read to the column's type; a cast if absent. */
  readonly convert?: (value: string) => string;
  /** Expression of a value's text for the hash of a row; a cast if absent. */
  readonly hashed?: (value: string) => string;
}

/** DuckDB types by declared type. */
export const duckTypes: Readonly<Record<ColumnType, DuckType>> = {
  text: { type: "VARCHAR", convert: unescape },
  integer: { type: "BIGINT" },
  position: { type: "INTEGER" },
  numeric: {
    type: "DECIMAL(38,20)",
    convert: toDecimal,
    hashed: (value) => `rtrim(rtrim(${value}::VARCHAR, '0'), '.')`,
  },
  boolean: { type: "BOOLEAN" },
  date: { type: "DATE", hashed: (value) => `date_diff('day', DATE '1970-01-01', ${value})::VARCHAR` },
  timestamptz: { type: "TIMESTAMPTZ", hashed: (value) => `epoch_us(${value})::VARCHAR` },
  timestamp: { type: "TIMESTAMP", hashed: (value) => `epoch_us(${value})::VARCHAR` },
  json: { type: "JSON", convert: (value) => `CAST(${unescape(value)} AS JSON)` },
  uuid: { type: "UUID" },
  "text[]": {
    type: "VARCHAR[]",
    convert: (value) => `from_json_strict(${unescape(value)}, '["VARCHAR"]')`,
    hashed: (value) => `coalesce(array_to_string(${value}, chr(1)), '')`,
  },
  bytes: {
    type: "BLOB",
    convert: (value) => `from_base64(${value})`,
    hashed: (value) => `lower(hex(${value}))`,
  },
};

/** Expression that converts a staged column, a text, to its declared type. */
export function convertStaged(type: ColumnType, value: string): string {
  const { type: target, convert } = duckTypes[type];
  return convert ? convert(value) : `CAST(${value} AS ${target})`;
}

/** Text of a column's value for the hash of a row. */
export function hashedText(type: ColumnType, column: string): string {
  return duckTypes[type].hashed?.(column) ?? `${column}::VARCHAR`;
}

/** Characters that COPY escapes, by the letter after the backslash. */
const escaped = { b: 8, t: 9, n: 10, v: 11, f: 12, r: 13 };

/** Removes the backslashes of COPY's text format. NUL, which no text of Postgres contains, stands for escaped ones meanwhile. */
function unescape(value: string): string {
  const marked = `replace(${value}, '\\\\', chr(0))`;
  const replaced = Object.entries(escaped).reduce(
    (text, [letter, code]) => `replace(${text}, '\\${letter}', chr(${code}))`,
    marked,
  );
  return `CASE WHEN contains(${value}, '\\') THEN replace(${replaced}, chr(0), '\\') ELSE ${value} END`;
}

/** DuckDB casts text to wide decimals a hundred times more slowly than to those of 18 digits, which most numbers have. */
function toDecimal(value: string): string {
  const digits = (part: number) => `length(split_part(${value}, '.', ${part}))`;
  return `CASE WHEN ${digits(1)} <= 10 AND ${digits(2)} <= 8 THEN CAST(CAST(${value} AS DECIMAL(18,8)) AS DECIMAL(38,20))
    ELSE CAST(${value} AS DECIMAL(38,20)) END`;
}
