import { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { openClient } from "../../bigquery/client.ts";
import { BigQueryFailure, isStopped } from "../../bigquery/failure.ts";
import { quoteIdentifier, quoteLiteral, quoteQualified } from "../../bigquery/sql.ts";
import { openSession, type Session } from "../../bigquery/session.ts";
import type { Problem } from "../../errors.ts";
import {
  BLANKS,
  columnProblems,
  columnsOfRows,
  fingerprintColumns,
  fingerprintScope,
  listColumns,
  normalizedAddress,
  partsOf,
  partsRead,
  settingOf,
  unreadable,
  unselectable,
} from "./columns.ts";
import {
  type BigQueryConnection,
  type InputDatabase,
  type Identifiers,
  type InputColumn,
  type InputSample,
  type InputSource,
  type KeyCounts,
  type NamingRow,
  narrowed,
  type MappedColumn,
  type InputQuery,
  relationText,
  type RowColumn,
  rowColumns,
  selectRows,
  SAMPLE_ELEMENTS,
  SAMPLE_LENGTH,
  SAMPLE_LIMIT_MS,
  SAMPLE_ROWS,
  type SampledRow,
} from "./input.ts";
import { encodeRows } from "../lookups/person-groups.ts";

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

/** Type names in BigQuery's description of a result, with those for a CAST. */
const TYPE_NAMES: Readonly<Record<string, string>> = {
  INTEGER: "INT64",
  FLOAT: "FLOAT64",
  BOOLEAN: "BOOL",
  RECORD: "STRUCT",
};

/** Queries the input's columns by a dry run, which reads no rows and bills nothing. */
async function describeColumns(session: Session, input: InputSource): Promise<readonly InputColumn[]> {
  const columns = await session.describe({
    text: `SELECT input_row.* FROM ${relationText(input, quoteQualified)}`,
  });
  return columns.map(({ name, type, mode }) => ({
    name,
    typeName: TYPE_NAMES[type] ?? type,
    isArray: mode === "REPEATED",
  }));
}

/** Column names in BigQuery are case-insensitive. */
function finderOf(columns: readonly InputColumn[]) {
  return (name: string) => columns.find((c) => c.name.toLowerCase() === name.toLowerCase());
}

const typeOf = (name: string, columns: readonly InputColumn[]) =>
  finderOf(columns)(name)?.typeName ?? "STRING";

const rowColumn = (name: string) => `input_row.${quoteIdentifier(name)}`;

function blankToNull(expression: string): string {
  return `IF(TRIM(${expression}, ${quoteLiteral(BLANKS)}) = '', NULL, ${expression})`;
}

function partText({ column: name, isArray }: MappedColumn, columns: readonly InputColumn[]): string {
  const typeName = typeOf(name, columns);
  const column = rowColumn(name);
  if (!isArray) return blankToNull(valueText(column, typeName));
  const text = blankToNull(valueText("e", typeName));
  return `ARRAY(SELECT ${text} FROM UNNEST(${column}) AS e WITH OFFSET AS o WHERE ${text} IS NOT NULL ORDER BY o)`;
}

/** Fingerprint of a row, as text of Postgres's `bytea`: MD5 of the texts of its mapped columns as a JSON list. NULL and '' are equal. */
function fingerprintText(input: InputSource, columns: readonly InputColumn[]): string {
  const found = fingerprintColumns(input).map(
    (name) => finderOf(columns)(name) ?? { name, typeName: "STRING", isArray: false },
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

/** Query for the raw rows of an input, blanks as NULL and omitted from lists. A key set is the parameter `among`. */
function rawSelect(
  input: InputSource,
  parts: readonly MappedColumn[],
  columns: readonly InputColumn[],
  options: Pick<InputQuery, "ranked" | "hasFingerprint" | "among">,
): string {
  return selectRows(input, parts, options, {
    quoteQualified,
    keyText: (name) => valueText(rowColumn(name), typeOf(name, columns)),
    // NULL if one text is NULL, as TO_JSON_STRING isn't.
    jsonArray: (texts) =>
      `IF(${texts.map((text) => `${text} IS NULL`).join(" OR ")}, NULL, CONCAT('[', ${texts.map((text) => `TO_JSON_STRING(${text})`).join(", ', ', ")}, ']'))`,
    partText: (part) => partText(part, columns),
    fingerprint: () => fingerprintText(input, columns),
    isAmong: (key) => `${key} IN UNNEST(@among)`,
  });
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
function narrowToKey(
  input: InputSource,
  columns: readonly InputColumn[],
  { only, isCast }: Pick<InputQuery, "only" | "isCast">,
): InputSource {
  if (!only) return input;
  const values = input.key.map((name, i) => {
    const typeName = typeOf(name, columns);
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

function reasonOf(error: unknown): string {
  return error instanceof BigQueryFailure ? error.code : "";
}

/** Returns the problems of an input; reads no rows and changes nothing. */
async function checkInput(session: Session, input: InputSource): Promise<readonly Problem[]> {
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

/** Finds the rows of an input with one of these keys, addresses or PIDs; scans the input once. */
async function findNamingRows(
  session: Session,
  input: InputSource,
  wanted: Identifiers,
): Promise<readonly NamingRow[]> {
  const keys = wanted.rows.filter(({ source }) => source === input.name).map(({ sourceKey }) => sourceKey);
  if (keys.length + wanted.emails.length + wanted.pids.length === 0) return [];
  const columns = await describeColumns(session, input);
  const parts = partsOf(input, "enrich", finderOf(columns));
  const rows = rawSelect(input, parts, columns, { ranked: false });
  const texts = (field: string) =>
    parts
      .filter((part) => part.field === field)
      .map(({ name, isArray }) => (isArray ? name : `IF(${name} IS NULL, [], [${name}])`));
  const listOf = (field: string) => {
    const lists = texts(field);
    return lists.length === 0 ? "CAST([] AS ARRAY<STRING>)" : `ARRAY_CONCAT(${lists.join(", ")})`;
  };
  return session.rows<NamingRow>({
    text: `SELECT source_key AS sourceKey, emails, pids
      FROM (SELECT source_key, ${listOf("emails")} AS emails, ${listOf("service_pid")} AS pids FROM (${rows}) AS r) AS f
      WHERE source_key IN UNNEST(@keys)
        OR EXISTS (SELECT 1 FROM UNNEST(emails) AS e WHERE ${normalizedAddress("e", `TRIM(e, ${quoteLiteral(BLANKS)})`)} IN UNNEST(@emails))
        OR EXISTS (SELECT 1 FROM UNNEST(pids) AS p WHERE p IN UNNEST(@pids))`,
    parameters: { keys, emails: wanted.emails, pids: wanted.pids },
  });
}

/** Counts the keys of an input and reads a sample of its rows. Bills reading the key and the mapped columns. */
async function sampleInput(session: Session, input: InputSource): Promise<InputSample> {
  const columns = await describeColumns(session, input);
  const rowsOf = <Row>(text: string) => inTime(session.rows<Row>({ text, jobTimeoutMs: SAMPLE_LIMIT_MS }));
  const first = async <Row>(text: string) => (await rowsOf<Row>(text))?.[0] ?? null;
  const options = { ranked: false };
  const keys = await first<KeyCounts>(keyCountsSelect(rawSelect(input, [], columns, options)));
  const parts = partsOf(input, "enrich", finderOf(columns));
  const names = parts.map(({ name }) => name);
  const values = parts.map(({ name, isArray }) => {
    const elements = `UNNEST(${name}) AS e WITH OFFSET AS o`;
    return isArray
      ? `ARRAY(SELECT ${cut("e")} FROM ${elements} ORDER BY o LIMIT ${SAMPLE_ELEMENTS}) AS ${name}`
      : `${cut(name)} AS ${name}`;
  });
  const text = `SELECT ${values.join(", ")} FROM (${rawSelect(input, parts, columns, options)}) AS r
    ORDER BY FARM_FINGERPRINT(source_key) LIMIT ${SAMPLE_ROWS}`;
  const found = await rowsOf<Readonly<Record<string, SampledRow[number]>>>(text);
  const rows = (found ?? []).map((row): SampledRow => names.map((name) => row[name] ?? null));
  return {
    engine: "bigquery",
    keys,
    keyIsUnique: false,
    uniqueColumns: null,
    columns: columnsOfRows(parts, rows, (column) => typeOf(column, columns)),
    sampledRows: rows.length,
    names: columns.map(({ name }) => name),
  };
}

function cut(value: string): string {
  return `LEFT(${value}, ${SAMPLE_LENGTH})`;
}

function keyCountsSelect(rows: string): string {
  return `SELECT IFNULL(SUM(n), 0) AS \`rows\`, IFNULL(SUM(IF(source_key IS NULL, n, 0)), 0) AS withoutKey,
      IFNULL(SUM(IF(source_key IS NULL, 0, n - 1)), 0) AS duplicates
    FROM (SELECT source_key, COUNT(*) AS n FROM (${rows}) AS r GROUP BY source_key) AS k`;
}

/** Result of a statement that ends in time, else null. BigQuery stops the job itself, but its answer can come late. */
async function inTime<Result>(work: Promise<Result>): Promise<Result | null> {
  const stop = new AbortController();
  const late = delay(SAMPLE_LIMIT_MS, null, { signal: stop.signal });
  try {
    return await Promise.race([work, late]);
  } catch (error) {
    if (isStopped(error)) return null;
    throw error;
  } finally {
    stop.abort();
    late.catch(() => {});
    work.catch(() => {});
  }
}

/** Rows per page: a few megabytes. */
const PAGE_SIZE = 5000;

/** Row of a query, with the columns of {@link rowColumns}. */
type RawValues = Readonly<Record<string, string | readonly string[] | number | null>>;

/** Opens a BigQuery project that inputs are read from; connects on first use. */
export function openBigQueryDatabase(connection: BigQueryConnection): InputDatabase {
  const { dataset, location, maximumBytesBilled } = connection;
  const session = openSession({
    client: openClient(connection),
    dataset,
    location,
    maximumBytesBilled,
  });
  return {
    checkInput: (input) => checkInput(session, input),
    describe: (input) => describeColumns(session, { ...input, where: null }),
    sampleInput: (input) => sampleInput(session, input),
    async read(input, reading, work) {
      const columns = await describeColumns(session, input);
      const parts = partsRead(input, reading, finderOf(columns));
      const { only, among } = reading;
      const text = rawSelect(narrowToKey(input, columns, reading), parts, columns, reading);
      const parameters = {
        ...Object.fromEntries((only ?? []).map((value, i) => [`key_${i}`, value])),
        ...(among && "keys" in among ? { among: among.keys } : {}),
      };
      const rowNames = rowColumns(input, parts, reading);
      return work({
        parts,
        // BigQuery has no unique indexes.
        keyIsUnique: false,
        columns: rowNames,
        copyText: () => streamOf(session.pages<RawValues>({ text, parameters }, PAGE_SIZE), rowNames),
      });
    },
    findRows: (input, wanted) => findNamingRows(session, input, wanted),
    async close() {},
  };
}

function streamOf(pages: AsyncIterable<readonly RawValues[]>, columns: readonly RowColumn[]): Readable {
  async function* chunks(): AsyncGenerator<Buffer> {
    for await (const page of pages) yield copyText(page, columns);
  }
  return Readable.from(chunks(), { objectMode: false });
}

function copyText(page: readonly RawValues[], columns: readonly RowColumn[]): Buffer {
  return encodeRows(page.map((row) => columns.map(({ name }) => cellOf(row[name] ?? null))));
}

/** Replaces NUL, which Postgres can't store, by U+FFFD. */
function cellOf(value: RawValues[string]): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value === "string") return withoutNul(value);
  if (typeof value !== "object") return String(value);
  return `{${value.map((text) => `"${withoutNul(text).replaceAll(/["\\]/g, "\\$&")}"`).join(",")}}`;
}

function withoutNul(text: string): string {
  return text.includes("\0") ? text.replaceAll("\0", "\uFFFD") : text;
}
