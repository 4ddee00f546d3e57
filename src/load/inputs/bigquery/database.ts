import { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { openClient } from "../../../bigquery/client.ts";
import { isStopped } from "../../../bigquery/failure.ts";
import { quoteLiteral } from "../../../bigquery/names.ts";
import { openSession, type Session } from "../../../bigquery/session.ts";
import type { Identifiers } from "../../erasure/subjects.ts";
import { encodeRows } from "../../lookups/row-store.ts";
import { type ForeignDatabase, type NamingRow, type RowColumn, rowColumns } from "../foreign-database.ts";
import { BLANKS } from "../input-fields.ts";
import {
  columnsOfRows,
  type InputSample,
  type KeyCounts,
  SAMPLE_ELEMENTS,
  SAMPLE_LENGTH,
  SAMPLE_LIMIT_MS,
  SAMPLE_ROWS,
  type SampledRow,
} from "../input-sample.ts";
import type { BigQueryConnection, InputSource } from "../input-source.ts";
import { partsOf, partsRead } from "../mapped-columns.ts";
import { checkInput, describeColumns, finderOf, narrowToKey, rawSelect } from "./input.ts";

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
        OR EXISTS (SELECT 1 FROM UNNEST(emails) AS e WHERE ${normalizedAddress("e")} IN UNNEST(@emails))
        OR EXISTS (SELECT 1 FROM UNNEST(pids) AS p WHERE p IN UNNEST(@pids))`,
    parameters: { keys, emails: wanted.emails, pids: wanted.pids },
  });
}

const CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/** Normalizes an address for comparison. */
function normalizedAddress(expression: string): string {
  return `TRANSLATE(TRIM(${expression}, ${quoteLiteral(BLANKS)}), '${CAPITALS}', '${CAPITALS.toLowerCase()}')`;
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
    columns: columnsOfRows(parts, rows, (column) => finderOf(columns)(column)?.typeName ?? "STRING"),
    sampledRows: rows.length,
    names: columns.map(({ name }) => name),
  };
}

/** The beginning of a value. */
function cut(value: string): string {
  return `LEFT(${value}, ${SAMPLE_LENGTH})`;
}

/** Query for {@link KeyCounts} over raw rows. */
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
export function openBigQueryDatabase(connection: BigQueryConnection): ForeignDatabase {
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
