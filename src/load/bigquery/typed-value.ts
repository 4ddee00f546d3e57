import type { ColumnType } from "../../schemas/field.ts";
import { columnType } from "./ddl.ts";

/**
 * A staged text as a value of a declared type. JSON keeps numbers as BigQuery does: 64-bit integers and doubles.
 * @param safe whether a text that is none becomes NULL instead of an error.
 */
export function typedValue(type: ColumnType, text: string, safe = false): string {
  if (type === "text" || type === "uuid") return text;
  const prefix = safe ? "SAFE." : "";
  if (type === "json") return `${prefix}PARSE_JSON(${text}, wide_number_mode => 'round')`;
  if (type === "bytes") return `${prefix}FROM_HEX(${text})`;
  return `${safe ? "SAFE_CAST" : "CAST"}(${text} AS ${columnType(type)})`;
}

/** Whether two values differ, nulls included. */
export function isDistinct(type: ColumnType, a: string, b: string): string {
  return type === "json"
    ? `TO_JSON_STRING(${a}) IS DISTINCT FROM TO_JSON_STRING(${b})`
    : `${a} IS DISTINCT FROM ${b}`;
}
