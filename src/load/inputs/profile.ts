import {
  quoteIdentifier as quoteBigQuery,
  quoteQualified as quoteBigQueryQualified,
} from "../../bigquery/sql.ts";
import { quoteIdentifier, quoteQualified } from "../db/names.ts";
import type { InputSample, SampledColumn } from "./input.ts";
import { listFields, normalized, withoutBlanksAround } from "./columns.ts";

/** Counts of a mapped column in a sample; holds no value. */
export interface ColumnProfile extends Pick<SampledColumn, "field" | "column" | "isArray" | "typeName"> {
  /** Rows with a value. */
  readonly filled: number;
  readonly values: number;
  /** Values that `normalize` leaves out as placeholders. */
  readonly placeholders: number;
  /** Values that `normalize` leaves out: addresses without `@`, phone numbers without enough digits. */
  readonly malformed: number;
  /** Values with blanks around them. */
  readonly padded: number;
  /** Addresses with capitals. */
  readonly capitals: number;
  /** Values that are sent wrongly, with what fixes them; null for none. */
  readonly flaw: Flaw | null;
}

/** Changes that `normalize: true` makes in a sample. */
export interface NormalizeEffect {
  readonly values: number;
  readonly leftOut: number;
  readonly changed: number;
  /** Distinct addresses, as sent and normalized. */
  readonly addresses: readonly [number, number];
  /** Distinct records, as sent and normalized. */
  readonly records: readonly [number, number];
}

/** Profile of an input: counts and column names, no value. */
export interface InputProfile extends Omit<InputSample, "columns"> {
  readonly columns: readonly ColumnProfile[];
  /** Sampled rows without any value to send. */
  readonly emptyRows: number;
  readonly effect: NormalizeEffect;
}

/** Counts what a sample holds. @param normalize true if the input is already normalized */
export function profileOf(sample: InputSample, normalize: boolean): InputProfile {
  const { columns: sampled, ...rest } = sample;
  const columns = sampled.map((column) => ({
    ...column,
    values: column.values.map((own) => own.filter((text) => withoutBlanksAround(text) !== "")),
  }));
  const profiles = columns.map((column) => profileColumn(column, sample.engine));
  // Values of a wrong type are no evidence of placeholders.
  const sound = columns.filter((_, index) => profiles[index]?.flaw === null);
  const asSent = recordsOf(sound, sample.sampledRows, (_, text) => text);
  const clean = recordsOf(sound, sample.sampledRows, sentText);
  const all = recordsOf(columns, sample.sampledRows, normalize ? sentText : (_, text) => text);
  const counts = profiles.filter(({ flaw }) => flaw === null);
  const sum = (name: "values" | "placeholders" | "malformed") =>
    counts.reduce((total, profile) => total + profile[name], 0);
  return {
    ...rest,
    columns: profiles,
    emptyRows: all.filter((record) => record === "").length,
    effect: {
      values: sum("values"),
      leftOut: sum("placeholders") + sum("malformed"),
      changed: sound
        .flatMap(({ field, values }) => values.flat().map((text) => [field, text] as const))
        .filter(([field, text]) => ![null, text].includes(sentText(field, text))).length,
      addresses: [distinctAddresses(sound, (_, text) => text), distinctAddresses(sound, sentText)],
      records: [distinct(asSent), distinct(clean)],
    },
  };
}

/** Text that is sent for a value; null for none. */
type SentText = (field: string, text: string) => string | null;

function sentText(field: string, text: string): string | null {
  const result = normalized(field, text);
  return "text" in result ? result.text : null;
}

function profileColumn(column: SampledColumn, engine: InputSample["engine"]): ColumnProfile {
  const { field, typeName, isArray } = column;
  const values = column.values.flat();
  const results = values.map((text) => normalized(field, text));
  const dropped = (reason: string) =>
    results.filter((result) => "dropped" in result && result.dropped === reason).length;
  return {
    field,
    column: column.column,
    typeName,
    isArray,
    filled: column.values.filter((own) => own.length > 0).length,
    values: values.length,
    placeholders: dropped("placeholder"),
    malformed: dropped("malformed"),
    padded: values.filter((text) => withoutBlanksAround(text) !== text).length,
    capitals: field === "emails" ? values.filter((text) => /[A-Z]/u.test(text)).length : 0,
    flaw: flawOf(column, values, engine),
  };
}

/** Record of each row as text, empty without a value. */
function recordsOf(columns: readonly SampledColumn[], rows: number, sent: SentText): readonly string[] {
  return Array.from({ length: rows }, (_, row) => {
    const texts = columns.flatMap(({ field, values }) =>
      (values[row] ?? []).flatMap((text) => {
        const own = sent(field, text);
        return own === null ? [] : [[field, own]];
      }),
    );
    return texts.length === 0 ? "" : JSON.stringify(texts);
  });
}

function distinct(records: readonly string[]): number {
  return new Set(records.filter((record) => record !== "")).size;
}

function distinctAddresses(columns: readonly SampledColumn[], sent: SentText): number {
  const addresses = columns
    .filter(({ field }) => field === "emails")
    .flatMap(({ field, values }) => values.flat().map((text) => sent(field, text)));
  return new Set(addresses.filter((address) => address !== null)).size;
}

/** Values of a column that are sent wrongly. */
interface Flaw {
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
  /** Affected types; absent for all. */
  readonly types?: RegExp;
  /** Affected field; absent for all. */
  readonly field?: "zipcode" | "emails" | "phones";
  /** True if only fields that hold lists are affected. */
  readonly isForLists?: true;
  /** Affected values; absent for all. Anchored, so that each value is read once. */
  readonly values?: RegExp;
  readonly postgres?: Convert;
  readonly bigquery?: Convert;
}

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
    field: "emails",
    postgres: (c) => jsonTexts(c, String.raw`^\s*\S+@\S+\s*$`),
    bigquery: (c) =>
      String.raw`REGEXP_EXTRACT_ALL(TO_JSON_STRING(${c}), r'"\s*([^"\\\s]+@[^"\\\s]+)\s*"(?:[,}\]]|$)')`,
  },
  {
    fact: (type) => `${type}, sent as JSON text`,
    types: JSON_TYPES,
    field: "phones",
    // Seven digits before any letter, except those of a date.
    postgres: (c) => jsonTexts(c, String.raw`^(?!\d{4}-\d\d-\d\d)([^0-9[:alpha:]]*[0-9]){7}`),
    bigquery: (c) =>
      String.raw`ARRAY(SELECT v FROM UNNEST(REGEXP_EXTRACT_ALL(TO_JSON_STRING(${c}), r'(?:^|[:,\[])"?((?:[^0-9A-Za-z",:{}\[\]]*[0-9]){7,})')) AS v WHERE NOT REGEXP_CONTAINS(v, r'^\d{4}-\d\d-\d\d'))`,
  },
  {
    fact: (type) => `${type}, sent as JSON text`,
    types: JSON_TYPES,
  },
  {
    fact: (type) => `${type}, sent in hexadecimal`,
    types: /^(?:bytea|BYTES)$/u,
    postgres: (c) => `convert_from(${c}, 'UTF8')`,
    bigquery: (c) => `SAFE_CONVERT_BYTES_TO_STRING(${c})`,
  },
  {
    fact: (type) => `${type}, so leading zeros are lost`,
    types: NUMBER_TYPES,
    field: "zipcode",
    // ZIP+4 has nine digits.
    postgres: (c, isLong) =>
      `lpad(${c}::bigint::text, ${isLong ? `case when ${c} > 99999 then 9 else 5 end` : "5"}, '0')`,
    bigquery: (c, isLong) =>
      `LPAD(CAST(CAST(${c} AS INT64) AS STRING), ${isLong ? `IF(${c} > 99999, 9, 5)` : "5"}, '0')`,
  },
  {
    fact: (type) => `are sent with a decimal point or exponent (${type})`,
    types: NUMBER_TYPES,
    field: "phones",
    values: /[.e]/iu,
    postgres: (c) => `${c}::bigint::text`,
    bigquery: (c) => `CAST(CAST(${c} AS INT64) AS STRING)`,
  },
  {
    fact: (type) => `${type}, not text`,
    types: OTHER_TYPES,
  },
  {
    fact: () => "have fewer than 5 digits",
    types: TEXT_TYPES,
    field: "zipcode",
    values: /^[1-9][0-9]{2,3}$/u,
    postgres: (c) => `case when ${c} ~ '^[0-9]{3,4}$' then lpad(${c}, 5, '0') else ${c} end`,
    bigquery: (c) => `IF(REGEXP_CONTAINS(${c}, r'^[0-9]{3,4}$'), LPAD(${c}, 5, '0'), ${c})`,
  },
  {
    fact: () => "are lists written as text",
    types: TEXT_TYPES,
    isForLists: true,
    values: JSON_TEXT,
    postgres: (c) => `regexp_split_to_array(${c}, '[][{}",;]+')`,
    bigquery: (c) => `REGEXP_EXTRACT_ALL(${c}, r'[^\\[\\]{}",;]+')`,
  },
  {
    fact: () => "hold several addresses",
    types: TEXT_TYPES,
    field: "emails",
    values: /^[^@]*@[^\s,;|/]*[\s,;|/][^@]*@/u,
    postgres: (c) => `regexp_split_to_array(${c}, '[,;|/[:space:]]+')`,
    bigquery: (c) => `REGEXP_EXTRACT_ALL(${c}, r'[^,;|/\\s]+')`,
  },
  {
    fact: () => "are JSON or records written as text",
    values: new RegExp(`${JSON_TEXT.source}|^\\([^,]*,.*\\)$`, "su"),
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
    if ((kind.field ?? field) !== field || (kind.isForLists && !listFields.has(field))) continue;
    if (kind.types?.test(type) === false) continue;
    // Expressions are for single values.
    if (isArray && kind.types === TEXT_TYPES) continue;
    const pattern = kind.values;
    const affected = pattern ? values.filter((text) => pattern.test(withoutBlanksAround(text))).length : null;
    if (affected === 0) continue;
    const convert =
      engine === "duckdb"
        ? kind.types === TEXT_TYPES && kind.postgres
        : !(isArray && engine === "bigquery") && kind[engine];
    const quoted = quoteIn(engine).identifier(column);
    const isLong = values.some((text) => text.replace(/\..*/su, "").length > 5);
    return {
      fact: kind.fact(isArray ? `${type}[]` : type),
      values: affected,
      expression: (convert && convert(quoted, isLong)) || null,
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
