import { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { openClient } from "../../bigquery/client.ts";
import { BigQueryFailure, explainFailure, isStopped } from "../../bigquery/failure.ts";
import { openSession, type Session } from "../../bigquery/session.ts";
import { quoteIdentifier, quoteLiteral, quoteQualified } from "../../bigquery/sql.ts";
import { explained } from "../db/failures.ts";
import { encodeRows } from "../lookups/person-groups.ts";
import { type InputEngine, openSqlInputs } from "./engine.ts";
import {
  type BigQueryConnection,
  type InputDatabase,
  relationText,
  type RowColumn,
  SAMPLE_LIMIT_MS,
} from "./input.ts";

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

/** Remedies by BigQuery's reason. */
const HINTS: Readonly<Record<string, (setting: "table" | "sql") => string>> = {
  notFound: (setting) =>
    setting === "sql"
      ? "Create the table, or correct `sql:`; the dataset must be in `location`."
      : "Create the table, or correct `table:`: use dataset.table (for a table of another project, a `connection:`); the dataset must be in `location`.",
  accessDenied: () => "Grant the account `roles/bigquery.dataViewer` on the dataset.",
  invalidQuery: () => "Correct the SQL; run it in the BigQuery console to locate the error.",
};

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
  const { name, project, dataset, location, maximumBytesBilled } = connection;
  const session = openSession({ client: openClient(connection), dataset, location, maximumBytesBilled });
  const engine = engineOf(session);
  const place = { project, location, path: `connections.${name}`, datasets: [] };
  const explain = (error: unknown) => explainFailure(error, place);
  return openSqlInputs(
    (input, work) => explained(explain, () => work(engine, input)),
    async () => {},
  );
}

function engineOf(session: Session): InputEngine {
  return {
    name: "bigquery",
    quoteIdentifier,
    quoteLiteral,
    quoteQualified,
    text: valueText,
    value(text, typeName) {
      if (typeName === "STRING") return text;
      return typeName === "BYTES" ? `SAFE.FROM_HEX(SUBSTR(${text}, 3))` : `SAFE_CAST(${text} AS ${typeName})`;
    },
    list(list, element, { where, limit } = {}) {
      const ends = `ORDER BY o${limit === undefined ? "" : ` LIMIT ${limit}`}`;
      const condition = where === undefined ? "" : `WHERE ${where} `;
      return `ARRAY(SELECT ${element} FROM UNNEST(${list}) AS e WITH OFFSET AS o ${condition}${ends})`;
    },
    json: (value) => `TO_JSON_STRING(${value})`,
    hash: (texts) => `CONCAT('\\\\x', TO_HEX(MD5(TO_JSON_STRING([${texts.join(", ")}]))))`,
    isIn: (text, name) => `${text} IN UNNEST(@${name})`,
    hasAny: (list, element, name) =>
      `EXISTS (SELECT 1 FROM UNNEST(${list}) AS e WHERE ${element} IN UNNEST(@${name}))`,
    single: (name) => `(SELECT e FROM UNNEST(@${name}) AS e)`,
    shuffled: (key) => `FARM_FINGERPRINT(${key})`,
    /** A dry run, which reads no rows and bills nothing. */
    async describe(input) {
      const columns = await session.describe({
        text: `SELECT input_row.* FROM ${relationText(input, quoteQualified)}`,
      });
      return columns.map(({ name, type, mode }) => ({
        name,
        typeName: TYPE_NAMES[type] ?? type,
        isArray: mode === "REPEATED",
      }));
    },
    validate: (text) => session.describe({ text }),
    hintFor: (error, setting) =>
      error instanceof BigQueryFailure ? (HINTS[error.code]?.(setting) ?? null) : null,
    rows: (text, parameters) => session.rows({ text, parameters }),
    rowsInTime: (text) => inTime(session.rows({ text, jobTimeoutMs: SAMPLE_LIMIT_MS })),
    copyText: (text, columns, parameters) =>
      streamOf(session.pages<RawValues>({ text, parameters }, PAGE_SIZE), columns),
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
