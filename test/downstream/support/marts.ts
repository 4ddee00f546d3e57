import { join } from "node:path";
import { DuckDBInstance } from "@duckdb/node-api";
import { openClient } from "../../../src/bigquery/client.ts";
import { openSession } from "../../../src/bigquery/session.ts";
import { runSql } from "../../support/run-sql.ts";
import type { DbtProject } from "./dbt.ts";
import { datasetOfMarts, MARTS } from "./engines.ts";
import type { PublishedDatasets } from "./sandbox-nights.ts";

/** Values of a row as texts that no engine owns. */
export type MartRow = Readonly<Record<string, string | null>>;
/** Rows of every table that dbt wrote, by name. */
export type Marts = Readonly<Record<string, readonly MartRow[]>>;

/** Access to the marts of one engine. */
export interface MartStore {
  /** Runs a statement; the rows of a query. */
  readonly ask: (sql: string) => Promise<readonly Readonly<Record<string, unknown>>[]>;
  /** Schema of a part, `people` or `reporting`. */
  readonly schema: (part: string) => string;
  /** Names of a schema's tables, without views. */
  readonly tables: (schema: string) => Promise<readonly string[]>;
  /** Expression for the JSON text of a row `t`. */
  readonly json: string;
}

/** Store of an engine with `information_schema`. */
function storeOf(ask: MartStore["ask"], json: string): MartStore {
  return {
    ask,
    json,
    schema: (part) => `${MARTS}_${part}`,
    async tables(schema) {
      const rows = await ask(
        `SELECT table_name FROM information_schema.tables WHERE table_schema = '${schema}' AND table_type = 'BASE TABLE'`,
      );
      return rows.map((row) => String(row["table_name"]));
    },
  };
}

/** Marts in Postgres. */
export const martsInPostgres = (url: string): MartStore =>
  storeOf((sql) => runSql(url, sql), "to_jsonb(t)::text");

/** Marts in dbt's own DuckDB file. */
export const martsInDuckDb = ({ folder }: DbtProject): MartStore =>
  storeOf(async (sql) => {
    const instance = await DuckDBInstance.create(join(folder, "analytics.duckdb"));
    const connection = await instance.connect();
    try {
      await connection.run("SET TimeZone = 'UTC'");
      return (await connection.runAndReadAll(sql)).getRowObjectsJson();
    } finally {
      connection.closeSync();
      instance.closeSync();
    }
  }, "CAST(to_json(t) AS VARCHAR)");

/** Marts in BigQuery. */
export function martsInBigQuery(bigQuery: PublishedDatasets): MartStore {
  const { project, apiEndpoint } = bigQuery;
  const client = openClient({ project, credentialsFile: null, impersonate: null, apiEndpoint });
  const session = openSession({ client, dataset: null, location: null, maximumBytesBilled: null });
  return {
    ask: (text) => session.rows({ text }),
    schema: (part) => `${datasetOfMarts(bigQuery)}_${part}`,
    async tables(schema) {
      // BigQuery's answer.
      const { tables } = (await client.send({
        method: "GET",
        path: `/datasets/${schema}/tables`,
        query: { maxResults: 1000 },
      })) as { tables: readonly { type: string; tableReference: { tableId: string } }[] };
      return tables
        .filter(({ type }) => type === "TABLE")
        .map(({ tableReference }) => tableReference.tableId);
    },
    json: "to_json_string(t)",
  };
}

/** Reads every table. */
export async function readMarts({ ask, schema, tables, json }: MartStore): Promise<Marts> {
  const marts: Record<string, readonly MartRow[]> = {};
  for (const part of ["people", "reporting"]) {
    for (const name of await tables(schema(part))) {
      const rows = await ask(`SELECT ${json} AS row_text FROM ${schema(part)}.${name} AS t`);
      // A row is a JSON object.
      const objects = rows.map(({ row_text: text }) => JSON.parse(String(text)) as Record<string, unknown>);
      marts[name] = sorted(objects.map(plainRow));
    }
  }
  return marts;
}

/** Rows in the order of their texts. */
function sorted(rows: readonly MartRow[]): readonly MartRow[] {
  return rows
    .map((row) => ({ row, text: JSON.stringify(row) }))
    .toSorted((a, b) => (a.text < b.text ? -1 : 1))
    .map(({ row }) => row);
}

/** Row with the columns in the order of their names. */
export function plainRow(row: Readonly<Record<string, unknown>>): MartRow {
  const entries = Object.entries(row).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([name, value]) => [name, plain(value)]));
}

const INSTANT = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)$/;
const WALL_TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?$/;
const DECIMAL = /^-?\d+\.\d+$/;

/** Text of a value: instants in UTC with six digits, wall times without zeros at the end, decimals without zeros at the end, lists as JSON. */
export function plain(value: unknown): string | null {
  if (value === null) return null;
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const fraction = INSTANT.exec(text)?.[1];
  if (INSTANT.test(text)) {
    const whole = text
      .replace(fraction ?? "", "")
      .replace(" ", "T")
      .replace(/([+-]\d\d)$/, "$1:00");
    return new Date(whole).toISOString().replace(".000Z", `${(fraction ?? ".").padEnd(7, "0")}Z`);
  }
  if (WALL_TIME.test(text)) return text.replace(" ", "T").replace(/\.0+$/, "");
  return DECIMAL.test(text) ? String(Number(text)) : text;
}

/** Columns whose values depend on the moment of a build or of a publication. */
const OF_THE_MOMENT = [
  "hours_since_success",
  "safe_until",
  "dbt_scd_id",
  "dbt_updated_at",
  "dbt_valid_from",
  "dbt_valid_to",
];

/** Rows as texts, without columns that depend on the moment; sorted. */
export function comparable(all: Marts): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries(
    Object.entries(all)
      .toSorted(([a], [b]) => a.localeCompare(b))
      .map(([name, rows]) => [
        name,
        rows
          .map((row) =>
            JSON.stringify(Object.entries(row).filter(([column]) => !OF_THE_MOMENT.includes(column))),
          )
          .toSorted(),
      ]),
  );
}
