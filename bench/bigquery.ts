import { stat } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { publishDestination } from "../src/jobs/publish/publish-destination.ts";
import { silentLog } from "../src/log.ts";
import { batchBytes, bytesText, priceOf } from "../src/publish/bigquery/cost.ts";
import {
  catalogOf,
  type Destination,
  type PublishedTable,
  type StagedFiles,
} from "../src/publish/destination.ts";
import type { ColumnType } from "../src/schemas/field.ts";
import { environmentOf, launcher, writeConfig } from "./enrich-job.ts";
import { measure } from "./measured-process.ts";
import { openNamed, setStage } from "./stage.ts";

/**
 * Bytes that publications to BigQuery bill, from the sizes of one night: BigQuery's own count of each value, and the compressed files.
 *
 *     npm run bench:bigquery -- [--people 20000]
 */
const { values } = parseArgs({ options: { people: { type: "string", default: "20000" } } });
const ROWS = Number(values.people);
const PER_MILLION = 1_000_000;

/** Bytes of a value by BigQuery's documentation; null takes none. */
const sizes: Readonly<Record<ColumnType, (column: string) => string>> = {
  text: (c) => `2 + octet_length(${c})`,
  "text[]": (c) => `(SELECT sum(2 + octet_length(e)) FROM unnest(${c}) AS e)`,
  uuid: (c) => `CASE WHEN ${c} IS NOT NULL THEN 38 END`,
  bytes: (c) => `2 + octet_length(${c})`,
  json: (c) => `octet_length(${c}::text)`,
  integer: (c) => `CASE WHEN ${c} IS NOT NULL THEN 8 END`,
  position: () => "8",
  numeric: (c) => `CASE WHEN ${c} IS NOT NULL THEN 32 END`,
  boolean: (c) => `CASE WHEN ${c} IS NOT NULL THEN 1 END`,
  date: (c) => `CASE WHEN ${c} IS NOT NULL THEN 8 END`,
  timestamp: (c) => `CASE WHEN ${c} IS NOT NULL THEN 8 END`,
  timestamptz: (c) => `CASE WHEN ${c} IS NOT NULL THEN 8 END`,
};

/** Size of a table after the run. */
interface TableSize {
  readonly table: PublishedTable;
  readonly rows: number;
  readonly bytes: number;
  readonly keyBytes: number;
}

const stage = await setStage(ROWS);
const db = openNamed(stage.databaseUrl, "bench");
try {
  await runNight();
  const catalog = catalogOf(null);
  const tables: TableSize[] = [];
  for (const table of catalog.tables) tables.push(await sizeOf(table));
  const people = tables.find(({ table }) => table.name === "person")?.rows ?? 0;
  const fileBytes = await filesOf(people);
  report(tables, people, fileBytes);
} finally {
  await db.close();
  await stage.close();
}

/** Runs the real program once over all rows. */
async function runNight(): Promise<void> {
  const config = writeConfig(stage, "bench", {
    jobs: `resolve_customers: { type: resolve, input: customers }
  enrich_customers: { type: enrich, input: customers, pid_from: resolve_customers }`,
  });
  const args = ["--config", config, "--json", "--log-level", "warn", "run", "--yes"];
  await measure(launcher, args, environmentOf(stage));
}

/** SQL expression for the bytes of some columns of a row. */
function sizeText(columns: PublishedTable["columns"]): string {
  return columns.map(({ name, type }) => `coalesce(${sizes[type](`"${name}"`)}, 0)`).join(" + ") || "0";
}

async function sizeOf(table: PublishedTable): Promise<TableSize> {
  const keys = table.columns.filter(({ name }) => table.rootKey.includes(name));
  const schema = table.schema === "ops" ? "bench_ops" : "bench";
  const { rows } = await db.pool.query<{ rows: string; bytes: string; key_bytes: string }>(
    `SELECT count(*) AS rows, coalesce(sum(${sizeText(table.columns)}), 0) AS bytes, coalesce(sum(${sizeText(keys)}), 0) AS key_bytes
       FROM ${schema}."${table.name}"`,
  );
  const [row] = rows;
  return { table, rows: Number(row?.rows), bytes: Number(row?.bytes), keyBytes: Number(row?.key_bytes) };
}

/** Compressed bytes of a first publication, per person. */
async function filesOf(people: number): Promise<number> {
  let bytes = 0;
  const destination: Destination = {
    name: "measured",
    description: "a measured destination",
    fileFormat: "json",
    keysPerBatch: 1_000_000,
    check: async () => [],
    migrate: async () => {},
    restart: () => Promise.resolve(),
    position: async () => null,
    async stage(_, { files }: StagedFiles) {
      for (const file of files) bytes += (await stat(file)).size;
    },
    commit: async () => "committed",
    finish: async () => {},
    measure: async () => [],
    explain: (error) => error,
    close: async () => {},
  };
  const folder = join(stage.folder, "publish");
  await publishDestination({ db, destination, catalog: catalogOf(null), folder, log: silentLog });
  return bytes / people;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Prints the sizes and the nights that the documentation shows. */
function report(tables: readonly TableSize[], people: number, fileBytes: number): void {
  const perPerson = tables
    .filter(({ rows }) => rows >= people / 100)
    .map((size) => ({
      name: size.table.name,
      rows: size.rows / people,
      bytes: size.bytes / people,
      keyBytes: size.keyBytes / people,
    }));
  print(`${people} people from ${ROWS} input rows; compressed files ${Math.round(fileBytes)} bytes a person`);
  for (const { name, rows, bytes, keyBytes } of perPerson) {
    print(`| ${name} | ${rows.toFixed(2)} | ${Math.round(bytes)} | ${Math.round(keyBytes)} |`);
  }
  const total = perPerson.reduce((sum, { bytes }) => sum + bytes, 0);
  print(`| all | | ${Math.round(total)} | |`);
  const person = perPerson.filter(({ name }) => name === "person");
  for (const [what, changing] of [
    ["only fields of person", person],
    ["every table", perPerson],
  ] as const) {
    for (const [stored, changed] of [
      [1, 1],
      [10, 0.1],
      [10, 1],
      [10, 10],
    ] as const) {
      const batches = Math.max(1, Math.ceil((changed * changing.length) / 20));
      const bytes =
        batches *
        batchBytes(
          changing.map(({ bytes: size, keyBytes }) => ({
            stored: size * stored * PER_MILLION,
            storedKeys: keyBytes * stored * PER_MILLION,
            stagedKeys: (keyBytes * changed * PER_MILLION) / batches,
            stagedRows: (size * changed * PER_MILLION) / batches,
          })),
        );
      const billed = `${bytesText(bytes)}, US$ ${priceOf(bytes).toFixed(2)}`;
      print(`${stored} M stored, ${changed} M changed, ${what}: ${batches} batches, ${billed}`);
    }
  }
}
