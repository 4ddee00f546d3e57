import { listFields } from "../input-fields.ts";
import type { Part } from "../input-source.ts";

/**
 * Version of the rule below, kept with every hash. It is the rule of the Postgres warehouse, byte for byte, so that state can
 * move from one to the other.
 */
export const HASH_VERSION = 1;

/** One mapped value as an SQL expression: a STRING, or an ARRAY<STRING> without nulls. */
export interface Value {
  readonly field: string;
  readonly expression: string;
  readonly isArray: boolean;
}

/** The parts as they stand, as values. */
export function valuesOf(parts: readonly Part[]): readonly Value[] {
  return parts.map((part) => ({ field: part.field, expression: part.name, isArray: part.isArray }));
}

function piece(field: string, expression: string): string {
  const mark = listFields.has(field) ? "+" : "=";
  return `CONCAT('${field}${mark}', CAST(BYTE_LENGTH(${expression}) AS STRING), ':', ${expression}, ';')`;
}

/** The values as one text, each with its field's name and its length in bytes; nulls are left out. */
export function contentText(values: readonly Value[]): string {
  const pieces = values
    .toSorted((a, b) => (a.field < b.field ? -1 : a.field > b.field ? 1 : 0))
    .map(({ field, expression, isArray }) =>
      isArray
        ? `IFNULL((SELECT STRING_AGG(${piece(field, "e")}, '' ORDER BY o) FROM UNNEST(${expression}) AS e WITH OFFSET AS o), '')`
        : `IFNULL(${piece(field, expression)}, '')`,
    );
  return pieces.length === 0 ? "''" : `CONCAT(${pieces.join(", ")})`;
}

/** SHA-256 of {@link contentText}: no two different records have the same text. */
export function contentHash(values: readonly Value[]): string {
  return `SHA256(${contentText(values)})`;
}

/** The texts of a list field that are there, as one array. */
function listOf(own: readonly Value[]): string {
  const texts = own.filter((v) => !v.isArray).map((v) => v.expression);
  const arrays = own.filter((v) => v.isArray).map((v) => v.expression);
  const all = [
    ...(texts.length === 0
      ? []
      : [
          `ARRAY(SELECT e FROM UNNEST([${texts.join(", ")}]) AS e WITH OFFSET AS o WHERE e IS NOT NULL ORDER BY o)`,
        ]),
    ...arrays,
  ];
  return all.length === 1 ? (all[0] ?? "") : `ARRAY_CONCAT(${all.join(", ")})`;
}

/** The record as JSON text with the interface's field names; empty fields are left out. */
export function recordJson(values: readonly Value[]): string {
  const fields = [...new Set(values.map((v) => v.field))].toSorted();
  const entries = fields.map((field) => {
    const own = values.filter((v) => v.field === field);
    if (!listFields.has(field))
      return `CONCAT('"${field}":', TO_JSON_STRING(${own[0]?.expression ?? "NULL"}))`;
    return `'"${field}":' || NULLIF(TO_JSON_STRING(${listOf(own)}), '[]')`;
  });
  const conditions = fields.map((field, i) => {
    const own = values.filter((v) => v.field === field);
    const entry = entries[i] ?? "NULL";
    return listFields.has(field) ? entry : `IF(${own[0]?.expression ?? "NULL"} IS NULL, NULL, ${entry})`;
  });
  return `CONCAT('{', ARRAY_TO_STRING([${conditions.join(", ")}], ','), '}')`;
}

/** Every value of list fields as one array. */
export function allTexts(values: readonly Value[]): string {
  return listOf(values);
}

/** Whether any of the values holds something. */
export function hasAnyOf(values: readonly Value[], fields?: readonly string[]): string {
  const own = fields ? values.filter((v) => fields.includes(v.field)) : values;
  if (own.length === 0) return "FALSE";
  return `(${own.map((v) => (v.isArray ? `ARRAY_LENGTH(${v.expression}) > 0` : `${v.expression} IS NOT NULL`)).join(" OR ")})`;
}

/** What section 4.7 calls usable for /v1/resolve: a name, and at least one address or phone. */
export function isResolvable(values: readonly Value[]): string {
  const first = hasAnyOf(values, ["first_name"]);
  const last = hasAnyOf(values, ["last_name"]);
  const full = hasAnyOf(values, ["full_name"]);
  return `(((${first} AND ${last}) OR ${full}) AND ${hasAnyOf(values, ["emails", "phones"])})`;
}
