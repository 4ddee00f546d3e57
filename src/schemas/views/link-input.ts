import { type ColumnType, numeric, text, timestamptz } from "../field.ts";
import { type Column, columnsOf, withJoins } from "../table.ts";
import { type Dialect, quoted, type View } from "./view.ts";

/** Types that key columns keep; any other is text. */
export type KeyType = Extract<ColumnType, "integer" | "text" | "uuid" | "date" | "timestamp" | "timestamptz">;

export interface KeyColumn {
  readonly name: string;
  readonly type: KeyType;
}

const PREFIX = "link_";

/** Columns after those of the key. */
export const matchColumns = {
  service_pid: text("direct", "PID of the match."),
  match_score: numeric(
    "none",
    "Score of the match, in points; compare it with other scores of the same job only.",
  ),
  matched_at: timestamptz("none", "When the row was last matched."),
};

const MATCH = Object.keys(matchColumns);

/** True if Postgres takes a name of this length. */
export const isRelationName = (name: string): boolean => name.length <= 63;

export const inputOfLinkView = (name: string): string => name.slice(PREFIX.length);

/** Name of a key column that no other column of a view has. @param others names of these, in lower case */
export function keyColumnName(name: string, others: readonly string[]): string {
  return others.includes(name.toLowerCase()) ? `key_${name}` : name;
}

/** Name of a key column that every engine accepts. */
export function linkColumnName(name: string): string {
  const plain = keyColumnName(name.replaceAll(/\W/g, "_"), MATCH);
  return /^[A-Za-z_]/.test(plain) ? plain : `key_${plain}`;
}

const types: Readonly<
  Record<Exclude<Dialect, "postgres">, Readonly<Record<Exclude<KeyType, "text">, string>>>
> = {
  bigquery: {
    integer: "INT64",
    uuid: "STRING",
    date: "DATE",
    timestamp: "DATETIME",
    timestamptz: "TIMESTAMP",
  },
  duckdb: {
    integer: "BIGINT",
    uuid: "UUID",
    date: "DATE",
    timestamp: "TIMESTAMP",
    timestamptz: "TIMESTAMPTZ",
  },
  spark: {
    integer: "BIGINT",
    uuid: "STRING",
    date: "DATE",
    timestamp: "TIMESTAMP_NTZ",
    timestamptz: "TIMESTAMP",
  },
};

/** A text in JSON that Postgres accepts. */
const JSON_TEXT = String.raw`"(?:[^"\\\u0001-\u001f]|\\["\\/bfnrt]|\\u(?!0000|[dD][89a-fA-F])[0-9a-fA-F]{4})*"`;

/** Pattern of a JSON list of at least so many texts. */
const listOf = (texts: number) => `'[${Array.from({ length: texts }, () => `"%"`).join(", ")}]'`;

/** Text of one column of a composite key in Postgres. Reads JSON only where texts are escaped: it takes longest. */
function postgresPart(index: number, width: number): string {
  return `CASE WHEN source_key LIKE ${listOf(width)} AND source_key NOT LIKE ${listOf(width + 1)} THEN
    CASE WHEN strpos(source_key, '\\') = 0 THEN split_part(substr(source_key, 3, length(source_key) - 4), '", "', ${index + 1})
      WHEN source_key ~ '^\\[${JSON_TEXT}(?:, ${JSON_TEXT}){${width - 1}}\\]$' THEN CAST(source_key AS json) ->> ${index} END END COLLATE "default"`;
}

/** Text of a key column; null in rows whose key had another form. */
function textOf(dialect: Dialect, index: number, width: number): string {
  if (width === 1) return "source_key";
  const part: Readonly<Record<Dialect, string>> = {
    postgres: postgresPart(index, width),
    bigquery: `CASE WHEN source_key LIKE '["%' THEN json_value(source_key, '$[${index}]') END`,
    duckdb: `CASE WHEN source_key LIKE '["%' THEN json_extract_string(source_key, '$[${index}]') END`,
    spark: `CASE WHEN source_key LIKE '["%' THEN get_json_object(source_key, '$[${index}]') END`,
  };
  return `(${part[dialect]})`;
}

/**
 * Value of a text in Postgres. Uses functions that don't depend on settings, as an index requires, and no patterns, which take
 * longer than storing the row. Never fails: the row would not be stored.
 */
const inPostgres: Readonly<Record<Exclude<KeyType, "text">, (text: string) => string>> = {
  integer: (text) => `CASE WHEN rtrim(${text}, '0123456789') IN ('', '-') AND ${text} NOT IN ('', '-')
    AND (length(${text}) < 19 OR length(${text}) = 19 AND ${text} COLLATE "C" <= '9223372036854775807'
      OR length(${text}) = 20 AND ${text} COLLATE "C" <= '-9223372036854775808') THEN CAST(${text} AS bigint) END`,
  uuid: (text) => `CASE WHEN ${text} LIKE '________-____-____-____-____________'
    AND translate(${text}, '0123456789abcdef', '') = '----' THEN CAST(${text} AS uuid) END`,
  date: (text) => wallTime(text, "____-__-__", ["--"], ""),
  timestamp: (text) => wallTime(text, "____-__-__ __:__:__%", ["-- ::", "-- ::."], `substr(${text}, 18, 9)`),
  timestamptz: (text) =>
    `(${wallTime(text, "____-__-__ __:__:__%+00", ["-- ::+", "-- ::.+"], `split_part(substr(${text}, 18, 9), '+', 1)`)}) AT TIME ZONE 'UTC'`,
};

/** A text as time; null if it doesn't have the form, or other characters than digits and `others`. @param seconds text of them; empty for a date */
function wallTime(text: string, form: string, others: readonly string[], seconds: string): string {
  const whole = (from: number, length: number) => `CAST(substr(${text}, ${from}, ${length}) AS integer)`;
  const day = `${whole(1, 4)} - 2000, ${whole(6, 2)} - 1, 0, ${whole(9, 2)} - 1`;
  const time = `, ${whole(12, 2)}, ${whole(15, 2)}, CAST(${seconds} AS double precision)`;
  const instant = `TIMESTAMP '2000-01-01' + make_interval(${day}${seconds === "" ? "" : time})`;
  const isTime = `${text} LIKE '${form}' AND translate(${text}, '0123456789', '') IN (${others.map((other) => `'${other}'`).join(", ")})`;
  return `CASE WHEN ${isTime} THEN ${seconds === "" ? `CAST(${instant} AS date)` : instant} END`;
}

/** The text as a value of the type; null if it is none. */
function typed(dialect: Dialect, text: string, type: KeyType): string {
  if (type === "text") return text;
  if (dialect === "postgres") return inPostgres[type](text);
  const cast = dialect === "bigquery" ? "SAFE_CAST" : "TRY_CAST";
  return `${cast}(${text} AS ${types[dialect][type]})`;
}

type KeyTypes = readonly Pick<KeyColumn, "type">[];

/** Values of the key's columns, from `source_key`. Functions of the row alone, so that Postgres can index them. */
export function keyValues(dialect: Dialect, key: KeyTypes): readonly string[] {
  return key.map(({ type }, index) => typed(dialect, textOf(dialect, index, key.length), type));
}

/** Declares the columns of an input's key. */
export function columnsOfKey(input: string, key: readonly KeyColumn[]): readonly Column[] {
  const doc = `Key of the row in the input ${input}.`;
  return key.map(({ name, type }) => ({ name, type, pii: "direct", doc, required: false }));
}

/** Declares the view of an input's matches under its own key. @param key columns by the names of the view, in order */
export function linkView(input: string, key: readonly KeyColumn[]): View {
  const view: View = {
    name: `${PREFIX}${input}`,
    schema: "data",
    doc: `Best current match of each row of the input ${input}, with the input's own key: identity_link with the key's columns and types.`,
    columns: [...columnsOfKey(input, key), ...columnsOf(matchColumns)],
    reads: ["identity_link"],
    select: (dialect, ref) => {
      const values = keyValues(dialect, key);
      const columns = key.map(({ name }, index) => `${values[index]} AS ${quoted(dialect, name)}`);
      return `SELECT ${[...columns, ...MATCH].join(",\n  ")}\nFROM ${ref("identity_link")} WHERE source = '${input}'`;
    },
  };
  return { ...view, columns: withJoins(view) };
}
