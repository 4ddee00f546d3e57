import type { ColumnType } from "../../schemas/field.ts";

/** DuckDB's equivalent of a declared type. */
interface DuckType {
  /** Type of the column. */
  readonly type: string;
  /** Type for reading the files; text where DuckDB's JSON reader would round or rewrite the value. */
  readonly read: string;
  /** Expression that converts the value read to the column's type. */
  readonly convert?: (value: string) => string;
}

/** DuckDB types by declared type. */
export const duckTypes: Readonly<Record<ColumnType, DuckType>> = {
  text: { type: "VARCHAR", read: "VARCHAR" },
  integer: { type: "BIGINT", read: "BIGINT" },
  position: { type: "INTEGER", read: "INTEGER" },
  numeric: { type: "DECIMAL(38,20)", read: "VARCHAR", convert: toDecimal },
  boolean: { type: "BOOLEAN", read: "BOOLEAN" },
  date: { type: "DATE", read: "VARCHAR" },
  timestamptz: { type: "TIMESTAMPTZ", read: "VARCHAR" },
  timestamp: { type: "TIMESTAMP", read: "VARCHAR" },
  json: { type: "JSON", read: "VARCHAR" },
  uuid: { type: "UUID", read: "VARCHAR" },
  "text[]": { type: "VARCHAR[]", read: "VARCHAR[]" },
  bytes: { type: "BLOB", read: "VARCHAR", convert: (value) => `from_base64(${value})` },
};

/** Expression that converts a staged column to its declared type. */
export function convertStaged(type: ColumnType, value: string): string {
  const { type: target, read, convert } = duckTypes[type];
  if (convert) return convert(value);
  return target === read ? value : `CAST(${value} AS ${target})`;
}

/** DuckDB casts text to wide decimals a hundred times more slowly than to those of 18 digits, which most numbers have. */
function toDecimal(value: string): string {
  const digits = (part: number) => `length(split_part(${value}, '.', ${part}))`;
  return `CASE WHEN ${digits(1)} <= 10 AND ${digits(2)} <= 8 THEN CAST(CAST(${value} AS DECIMAL(18,8)) AS DECIMAL(38,20))
    ELSE CAST(${value} AS DECIMAL(38,20)) END`;
}
