import {
  quoteIdentifier as quoteBigQuery,
  quoteQualified as quoteBigQueryQualified,
} from "../../bigquery/names.ts";
import { quoteIdentifier, quoteQualified } from "../db/names.ts";
import { listFields, withoutBlanksAround } from "./input-fields.ts";
import type { InputSample, SampledColumn } from "./input-sample.ts";

/** Values of a column that are sent wrongly. */
export interface Flaw {
  /** Predicate about the column, or the affected values if they are counted: `jsonb, sent as JSON text`. */
  readonly fact: string;
  /** Affected values; null for all, by the column's type. */
  readonly values: number | null;
  /** Expression that gives the right values; null if only the user can say which these are. */
  readonly expression: string | null;
}

/** Expression for a quoted column. @param isLong true if values have more than 5 characters */
type Convert = (c: string, isLong: boolean) => string;

/** One kind of flaw, with its conversion by engine. */
interface Kind {
  readonly fact: (type: string) => string;
  /** True for affected types; null for texts. */
  readonly types: RegExp | null;
  readonly fields: (field: string) => boolean;
  /** Affected values; null for all. Anchored, so that each value is read once. */
  readonly values: RegExp | null;
  readonly postgres: Convert | null;
  readonly bigquery: Convert | null;
}

const isZip = (field: string) => field === "zipcode";
const isList = (field: string) => listFields.has(field);
const isPhone = (field: string) => field === "phones";
const isEmail = (field: string) => field === "emails";
const isAnyField = () => true;

const JSON_TYPES = /^(?:jsonb?|JSON)(?:\[\])?$/u;
const NUMBER_TYPES =
  /^(?:smallint|integer|bigint|numeric|real|double precision|INT64|FLOAT64|NUMERIC|BIGNUMERIC)$/u;
const OTHER_TYPES =
  /^(?:boolean|date|time|timestamp|interval|xml|point|money|hstore|tsvector|inet|BOOL|DATE|DATETIME|TIME|TIMESTAMP|INTERVAL|GEOGRAPHY|STRUCT)|range/u;
const TEXT_TYPES = /^(?:text|character|citext|name|STRING)/u;

/** Matches JSON and array literals; long values, whose end isn't read, by their beginning. */
const JSON_TEXT = /^[[{](?:.*[\]}]|.{300,})$/su;

/** Strings and numbers of JSON, at any depth, that match a pattern. */
const jsonTexts = (c: string, pattern: string) =>
  `array(select v#>>'{}' from jsonb_path_query(to_jsonb(${c}), 'strict $.**') as v where jsonb_typeof(v) in ('string', 'number') and v#>>'{}' ~ '${pattern}')`;

/** Flaws, in the order in which they are looked for; the first one counts. */
const KINDS: readonly Kind[] = [
  {
    fact: (type) => `${type}, sent as JSON text`,
    types: JSON_TYPES,
    fields: isEmail,
    values: null,
    postgres: (c) => jsonTexts(c, String.raw`^\s*\S+@\S+\s*$`),
    bigquery: (c) =>
      String.raw`REGEXP_EXTRACT_ALL(TO_JSON_STRING(${c}), r'"\s*([^"\\\s]+@[^"\\\s]+)\s*"(?:[,}\]]|$)')`,
  },
  {
    fact: (type) => `${type}, sent as JSON text`,
    types: JSON_TYPES,
    fields: isPhone,
    values: null,
    // Seven digits before any letter, except those of a date.
    postgres: (c) => jsonTexts(c, String.raw`^(?!\d{4}-\d\d-\d\d)([^0-9[:alpha:]]*[0-9]){7}`),
    bigquery: (c) =>
      String.raw`ARRAY(SELECT v FROM UNNEST(REGEXP_EXTRACT_ALL(TO_JSON_STRING(${c}), r'(?:^|[:,\[])"?((?:[^0-9A-Za-z",:{}\[\]]*[0-9]){7,})')) AS v WHERE NOT REGEXP_CONTAINS(v, r'^\d{4}-\d\d-\d\d'))`,
  },
  {
    fact: (type) => `${type}, sent as JSON text`,
    types: JSON_TYPES,
    fields: isAnyField,
    values: null,
    postgres: null,
    bigquery: null,
  },
  {
    fact: (type) => `${type}, sent in hexadecimal`,
    types: /^(?:bytea|BYTES)$/u,
    fields: isAnyField,
    values: null,
    postgres: (c) => `convert_from(${c}, 'UTF8')`,
    bigquery: (c) => `SAFE_CONVERT_BYTES_TO_STRING(${c})`,
  },
  {
    fact: (type) => `${type}, so leading zeros are lost`,
    types: NUMBER_TYPES,
    fields: isZip,
    values: null,
    // ZIP+4 has nine digits.
    postgres: (c, isLong) =>
      `lpad(${c}::bigint::text, ${isLong ? `case when ${c} > 99999 then 9 else 5 end` : "5"}, '0')`,
    bigquery: (c, isLong) =>
      `LPAD(CAST(CAST(${c} AS INT64) AS STRING), ${isLong ? `IF(${c} > 99999, 9, 5)` : "5"}, '0')`,
  },
  {
    fact: (type) => `are sent with a decimal point or exponent (${type})`,
    types: NUMBER_TYPES,
    fields: isPhone,
    values: /[.e]/iu,
    postgres: (c) => `${c}::bigint::text`,
    bigquery: (c) => `CAST(CAST(${c} AS INT64) AS STRING)`,
  },
  {
    fact: (type) => `${type}, not text`,
    types: OTHER_TYPES,
    fields: isAnyField,
    values: null,
    postgres: null,
    bigquery: null,
  },
  {
    fact: () => "have fewer than 5 digits",
    types: TEXT_TYPES,
    fields: isZip,
    values: /^[1-9][0-9]{2,3}$/u,
    postgres: (c) => `case when ${c} ~ '^[0-9]{3,4}$' then lpad(${c}, 5, '0') else ${c} end`,
    bigquery: (c) => `IF(REGEXP_CONTAINS(${c}, r'^[0-9]{3,4}$'), LPAD(${c}, 5, '0'), ${c})`,
  },
  {
    fact: () => "are lists written as text",
    types: TEXT_TYPES,
    fields: isList,
    values: JSON_TEXT,
    postgres: (c) => `regexp_split_to_array(${c}, '[][{}",;]+')`,
    bigquery: (c) => `REGEXP_EXTRACT_ALL(${c}, r'[^\\[\\]{}",;]+')`,
  },
  {
    fact: () => "hold several addresses",
    types: TEXT_TYPES,
    fields: isEmail,
    values: /^[^@]*@[^\s,;|/]*[\s,;|/][^@]*@/u,
    postgres: (c) => `regexp_split_to_array(${c}, '[,;|/[:space:]]+')`,
    bigquery: (c) => `REGEXP_EXTRACT_ALL(${c}, r'[^,;|/\\s]+')`,
  },
  {
    fact: () => "are JSON or records written as text",
    types: null,
    fields: isAnyField,
    values: new RegExp(`${JSON_TEXT.source}|^\\([^,]*,.*\\)$`, "su"),
    postgres: null,
    bigquery: null,
  },
];

/** First flaw of a column, by its type and the values of a sample; null for none. */
export function flawOf(
  { field, column, typeName, isArray }: Omit<SampledColumn, "values">,
  values: readonly string[],
  engine: InputSample["engine"],
): Flaw | null {
  const type = typeName.replace(/\[\]$/u, "");
  for (const kind of KINDS) {
    if (!kind.fields(field) || kind.types?.test(type) === false) continue;
    // Expressions are for single values.
    if (isArray && kind.types === TEXT_TYPES) continue;
    const affected = kind.values && values.filter((text) => kind.values?.test(withoutBlanksAround(text)));
    if (affected?.length === 0) continue;
    const convert = isArray && engine === "bigquery" ? null : kind[engine];
    const quoted = quoteIn(engine).identifier(column);
    const isLong = values.some((text) => text.replace(/\..*/su, "").length > 5);
    return {
      fact: kind.fact(isArray ? `${type}[]` : type),
      values: affected === null ? null : affected.length,
      expression: convert?.(quoted, isLong) ?? null,
    };
  }
  return null;
}

/** Quoting of an engine in suggested queries. */
export function quoteIn(engine: InputSample["engine"]) {
  return engine === "bigquery"
    ? { identifier: quoteBigQuery, qualified: quoteBigQueryQualified }
    : { identifier: quoteIdentifier, qualified: quoteQualified };
}
