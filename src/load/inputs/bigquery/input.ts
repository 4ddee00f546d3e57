import { BigQueryFailure } from "../../../bigquery/failure.ts";
import { quoteIdentifier, quoteLiteral, quoteQualified } from "../../../bigquery/names.ts";
import type { Session } from "../../../bigquery/session.ts";
import type { Problem } from "../../../errors.ts";
import { fingerprintColumns, fingerprintScope } from "../fingerprint.ts";
import type { Reading } from "../foreign-database.ts";
import { BLANKS } from "../input-fields.ts";
import { columnProblems, listColumns, settingOf, unreadable, unselectable } from "../input-problems.ts";
import {
  type InputColumn,
  type InputSource,
  type KeySet,
  narrowed,
  type Part,
  relationText,
} from "../input-source.ts";
import { partsOf } from "../mapped-columns.ts";

/**
 * GoogleSQL tokens for finding a query's end: string literals in their eight forms, quoted names, comments, and the
 * semicolon. Everything else is read one character at a time.
 */
const TOKEN =
  /--[^\n]*|#[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|"""(?:\\[\s\S]|(?!""")[^\\])*(?:"""|$)|'''(?:\\[\s\S]|(?!''')[^\\])*(?:'''|$)|"(?:\\[\s\S]|[^"\\])*(?:"|$)|'(?:\\[\s\S]|[^'\\])*(?:'|$)|`(?:\\[\s\S]|[^`\\])*(?:`|$)|[\s\S]/g;

/** Removes a query's final semicolons and the comments after them, so that it can be put in parentheses. */
function withoutSemicolon(query: string): string {
  let end: number | null = null;
  TOKEN.lastIndex = 0;
  for (let match = TOKEN.exec(query); match !== null; match = TOKEN.exec(query)) {
    const [token] = match;
    const isComment = token.startsWith("--") || token.startsWith("#") || token.startsWith("/*");
    if (token === ";") end ??= match.index;
    else if (!isComment && token.trim() !== "") end = null;
  }
  return end === null ? query : query.slice(0, end);
}

/** Removes trailing zeros of six fractional digits. */
function trimmed(text: string): string {
  return `REGEXP_REPLACE(${text}, r'[.]?0*$', '')`;
}

/** Conversion of each type to text, equal to Postgres's, so that equal values have equal hashes. */
const byType: Readonly<Record<string, (value: string) => string>> = {
  STRING: (value) => value,
  TIMESTAMP: (value) =>
    `CONCAT(${trimmed(`FORMAT_TIMESTAMP('%Y-%m-%d %H:%M:%E6S', ${value}, 'UTC')`)}, '+00')`,
  DATETIME: (value) => trimmed(`FORMAT_DATETIME('%Y-%m-%d %H:%M:%E6S', ${value})`),
  TIME: (value) => trimmed(`FORMAT_TIME('%H:%M:%E6S', ${value})`),
  BYTES: (value) => `CONCAT('\\\\x', TO_HEX(${value}))`,
  JSON: (value) => `TO_JSON_STRING(${value})`,
  STRUCT: (value) => `TO_JSON_STRING(${value})`,
  GEOGRAPHY: (value) => `ST_ASTEXT(${value})`,
};

/** Converts a value to text, null to null. */
function valueText(value: string, typeName: string): string {
  return byType[typeName]?.(value) ?? `CAST(${value} AS STRING)`;
}

/** GoogleSQL's quoting and comments. */
const SYNTAX = { quoteQualified, withoutSemicolon };

/** Type names in BigQuery's description of a result, with those for a CAST. */
const TYPE_NAMES: Readonly<Record<string, string>> = {
  INTEGER: "INT64",
  FLOAT: "FLOAT64",
  BOOLEAN: "BOOL",
  RECORD: "STRUCT",
};

/** Queries the input's columns by a dry run, which reads no rows and bills nothing. */
export async function describeColumns(session: Session, input: InputSource): Promise<readonly InputColumn[]> {
  const columns = await session.describe({ text: `SELECT input_row.* FROM ${relationText(input, SYNTAX)}` });
  return columns.map(({ name, type, mode }) => ({
    name,
    typeName: TYPE_NAMES[type] ?? type,
    isArray: mode === "REPEATED",
  }));
}

/** Column names in BigQuery are case-insensitive. */
function findColumn(name: string, columns: readonly InputColumn[]): InputColumn | undefined {
  return columns.find((c) => c.name.toLowerCase() === name.toLowerCase());
}

export function finderOf(columns: readonly InputColumn[]) {
  return (name: string) => findColumn(name, columns);
}

const rowColumn = (name: string) => `input_row.${quoteIdentifier(name)}`;

/** The expression, or NULL if it is empty or blank. */
function blankToNull(expression: string): string {
  return `IF(TRIM(${expression}, ${quoteLiteral(BLANKS)}) = '', NULL, ${expression})`;
}

function partText(part: Part, columns: readonly InputColumn[]): string {
  const typeName = findColumn(part.column, columns)?.typeName ?? "STRING";
  const column = rowColumn(part.column);
  if (!part.isArray) return `${blankToNull(valueText(column, typeName))} AS ${part.name}`;
  const text = blankToNull(valueText("e", typeName));
  return `ARRAY(SELECT ${text} FROM UNNEST(${column}) AS e WITH OFFSET AS o WHERE ${text} IS NOT NULL ORDER BY o) AS ${part.name}`;
}

/** Fingerprint of a row, as text of Postgres's `bytea`: MD5 of the texts of its mapped columns as a JSON list. NULL and '' are equal. */
function fingerprintText(input: InputSource, columns: readonly InputColumn[]): string {
  const found = fingerprintColumns(input).map(
    (name) => findColumn(name, columns) ?? { name, typeName: "STRING", isArray: false },
  );
  const scope = fingerprintScope(
    input,
    found.filter(({ isArray }) => isArray).map(({ name }) => name),
  );
  const texts = found.map(({ name, typeName, isArray }) => {
    const column = rowColumn(name);
    if (!isArray) return `IFNULL(${valueText(column, typeName)}, '')`;
    return `TO_JSON_STRING(ARRAY(SELECT ${valueText("e", typeName)} FROM UNNEST(${column}) AS e WITH OFFSET AS o ORDER BY o))`;
  });
  return `CONCAT('\\\\x', TO_HEX(MD5(TO_JSON_STRING([${[quoteLiteral(scope.toString("hex")), ...texts].join(", ")}]))))`;
}

/**
 * `SELECT source_key, p0 … pN [, fingerprint] [, rank] FROM input`: everything as text, blanks as NULL and omitted from lists.
 * A composite key is a JSON array of its columns' texts; a key with a null column is null.
 */
export function rawSelect(
  input: InputSource,
  parts: readonly Part[],
  columns: readonly InputColumn[],
  options: {
    readonly ranked: boolean;
    readonly hasFingerprint?: boolean;
    /** Present to read only rows with the keys of the parameter `among`; null and '' are one key. */
    readonly among?: KeySet;
  },
): string {
  const keys = input.key.map((name) =>
    valueText(rowColumn(name), findColumn(name, columns)?.typeName ?? "STRING"),
  );
  const isNull = input.key.map((name) => `${rowColumn(name)} IS NULL`).join(" OR ");
  const key =
    keys.length === 1
      ? keys[0]
      : `IF(${isNull}, NULL, CONCAT('[', ${keys.map((text) => `TO_JSON_STRING(${text})`).join(", ', ', ")}, ']'))`;
  const rank =
    options.ranked && input.orderBy !== null
      ? [`ROW_NUMBER() OVER (ORDER BY\n${input.orderBy}\n) AS rank`]
      : [];
  const selected = [
    `${key} AS source_key`,
    ...parts.map((part) => partText(part, columns)),
    ...(options.hasFingerprint ? [`${fingerprintText(input, columns)} AS fingerprint`] : []),
    ...rank,
  ];
  const rows = options.among ? narrowed(input, `IFNULL(${key}, '') IN UNNEST(@among)`) : input;
  return `SELECT ${selected.join(",\n  ")}\nFROM ${relationText(rows, SYNTAX)}`;
}

/** Reads a text as a value of a type; null if it is none. */
function textValue(text: string, typeName: string): string {
  if (typeName === "STRING") return text;
  return typeName === "BYTES" ? `SAFE.FROM_HEX(SUBSTR(${text}, 3))` : `SAFE_CAST(${text} AS ${typeName})`;
}

/**
 * Narrows an input to the rows with the key of the parameters `key_0`, `key_1`, …, or replaces it by that key in the columns' types:
 * null for a text that is no such value.
 */
export function narrowToKey(
  input: InputSource,
  columns: readonly InputColumn[],
  { only, isCast }: Pick<Reading, "only" | "isCast">,
): InputSource {
  if (!only) return input;
  const values = input.key.map((name, i) => {
    const typeName = findColumn(name, columns)?.typeName ?? "STRING";
    return { name, typeName, value: textValue(`@key_${i}`, typeName) };
  });
  if (isCast) {
    const cast = values.map(({ name, value }) => `${value} AS ${quoteIdentifier(name)}`);
    return { ...input, relation: { sql: `SELECT ${cast.join(", ")}` }, where: null };
  }
  const conditions = values.map(
    ({ name, typeName, value }) => `${valueText(rowColumn(name), typeName)} = ${valueText(value, typeName)}`,
  );
  return narrowed(input, conditions.join(" AND "));
}

const suggest = (_: string, columns: readonly InputColumn[]) => listColumns(columns);

/** Remedies by BigQuery's reason. */
const HINTS: Readonly<Record<string, (setting: "table" | "sql") => string>> = {
  notFound: (setting) =>
    setting === "sql"
      ? "Create the table, or correct `sql:`; the dataset must be in `location`."
      : "Create the table, or correct `table:`: use dataset.table (for a table of another project, a `connection:`); the dataset must be in `location`.",
  accessDenied: () => "Grant the account `roles/bigquery.dataViewer` on the dataset.",
  invalidQuery: () => "Correct the SQL; run it in the BigQuery console to locate the error.",
};

/** BigQuery's reason for a failure. */
function reasonOf(error: unknown): string {
  return error instanceof BigQueryFailure ? error.code : "";
}

/** Returns the problems of an input; reads no rows and changes nothing. */
export async function checkInput(session: Session, input: InputSource): Promise<readonly Problem[]> {
  let columns: readonly InputColumn[];
  try {
    columns = await describeColumns(session, { ...input, where: null });
  } catch (error) {
    const hint = HINTS[reasonOf(error)]?.(settingOf(input));
    if (hint === undefined) throw error;
    return [unreadable(input, error, hint)];
  }
  const find = finderOf(columns);
  const problems = columnProblems(input, columns, { find, suggest });
  if (problems.length > 0) return problems;
  try {
    const parts = partsOf(input, "enrich", find);
    await session.describe({ text: rawSelect(input, parts, columns, { ranked: true }) });
    return [];
  } catch (error) {
    if (reasonOf(error) === "") throw error;
    return [unselectable(input, error)];
  }
}
