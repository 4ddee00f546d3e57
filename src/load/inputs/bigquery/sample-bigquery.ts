import { setTimeout as delay } from "node:timers/promises";
import { isStopped } from "../../../bigquery/failure.ts";
import type { Session } from "../../../bigquery/session.ts";
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
import type { InputSource } from "../input-source.ts";
import { partsOf } from "../mapped-columns.ts";
import { describeColumns, finderOf, rawSelect } from "./input.ts";

/** Counts the keys of an input and reads a sample of its rows. Bills reading the key and the mapped columns. */
export async function sampleInput(session: Session, input: InputSource): Promise<InputSample> {
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
