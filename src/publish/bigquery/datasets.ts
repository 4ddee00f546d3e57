import { createHash } from "node:crypto";
import type { Client } from "../../bigquery/client.ts";
import { type NamedProject, orMissing } from "../../bigquery/failure.ts";
import { insertJob, runJob } from "../../bigquery/session.ts";
import { quoteIdentifier, quoteLiteral, quoteQualified } from "../../bigquery/sql.ts";
import { FixConfigurationError, type Problem } from "../../errors.ts";
import type { Catalog, PublishedTable } from "../destination.ts";
import type { ColumnType, PiiClass } from "../../schemas/field.ts";
import type { Column, PublishedSchema } from "../../schemas/table.ts";
import type { View } from "../../schemas/views/view.ts";

export interface DatasetNames {
  readonly project: string;
  readonly data: string;
  readonly ops: string;
  /** Dataset of staging tables. */
  readonly staging: string;
  /** Key of Cloud KMS that encrypts new datasets and tables; null for Google's. */
  readonly kmsKey: string | null;
}

const columnTypes: Readonly<Record<ColumnType, string>> = {
  text: "STRING",
  integer: "INT64",
  position: "INT64",
  // 38 digits before and after the decimal point; NUMERIC has only 9 after it, fewer than a value of the service may have.
  numeric: "BIGNUMERIC",
  boolean: "BOOL",
  date: "DATE",
  timestamptz: "TIMESTAMP",
  timestamp: "DATETIME",
  json: "JSON",
  uuid: "STRING",
  bytes: "BYTES",
  "text[]": "ARRAY<STRING>",
};

/** Type of a column in new tables; older ones may have a wider one. */
export function columnType({ type, isShort }: Pick<Column, "type" | "isShort">): string {
  return isShort ? "NUMERIC" : columnTypes[type];
}

/** Element type of a list; null for a scalar type. */
export function elementType(type: ColumnType): string | null {
  return /^ARRAY<(\w+)>$/.exec(columnTypes[type])?.[1] ?? null;
}

/**
 * Partitions of dated tables. One statement changes at most 4,000 of them, so those with instants of the service or of long times are
 * months.
 */
const PARTITIONED: Readonly<Record<string, readonly [column: string, part: "DAY" | "MONTH"]>> = {
  api_call: ["started_at", "DAY"],
  endpoint_usage_bucket: ["bucket_start", "DAY"],
  input_coverage: ["_synced_at", "MONTH"],
  match_history: ["valid_from", "MONTH"],
  person_history: ["valid_from", "MONTH"],
  reject: ["created_at", "MONTH"],
  segment_membership_history: ["valid_from", "MONTH"],
  sync_run: ["started_at", "MONTH"],
};

/** Types of columns that can neither cluster a table nor be part of a primary key. */
const UNSORTED: ReadonlySet<ColumnType> = new Set(["json", "bytes"]);

const MOST_CLUSTER_COLUMNS = 4;

/** Label of the position table: a hash of the catalog that the datasets were migrated to. */
const CATALOG_LABEL = "catalog";

/** Table with the last batch committed to the datasets. */
export const POSITION_TABLE = "publication_position";

/** Quotes the name of a table. */
export function tableName(names: DatasetNames, schema: PublishedSchema, name: string): string {
  return quoteQualified([names.project, names[schema], name]);
}

/** Quotes the name of the position table. */
export function positionTable(names: DatasetNames): string {
  return tableName(names, "ops", POSITION_TABLE);
}

export function createTable(table: PublishedTable, names: DatasetNames): string {
  const partition = PARTITIONED[table.name];
  const cluster = sortedKey(table).slice(0, MOST_CLUSTER_COLUMNS);
  const keys = [primaryKey(table), foreignKey(table, names)].filter((key) => key !== null);
  const columns = table.columns.map((c) => `  ${columnText(c, c.required === true)}`);
  return [
    `CREATE TABLE IF NOT EXISTS ${tableName(names, table.schema, table.name)} (`,
    [...columns, ...keys.map((key) => `  ${key}`)].join(",\n"),
    `)`,
    ...(partition ? [`PARTITION BY TIMESTAMP_TRUNC(${quoteIdentifier(partition[0])}, ${partition[1]})`] : []),
    ...(cluster.length === 0 ? [] : [`CLUSTER BY ${cluster.map(quoteIdentifier).join(", ")}`]),
    `OPTIONS (description = ${quoteLiteral(tableDescription(table))}, ` +
      `labels = [("application", "person-etl"), ("pii", "${strictestPii(table.columns)}")]${encryption(names)})`,
  ].join("\n");
}

function encryption({ kmsKey }: DatasetNames): string {
  return kmsKey === null ? "" : `, kms_key_name = ${quoteLiteral(kmsKey)}`;
}

/** Columns of the key by which BigQuery can sort. */
function sortedKey({ key, columns }: PublishedTable): readonly string[] {
  return key.filter((name) => columns.some((c) => c.name === name && !UNSORTED.has(c.type)));
}

const list = (columns: readonly string[]) => columns.map(quoteIdentifier).join(", ");

/** Primary key, which helps tools and the optimizer; null if the table has none or BigQuery can't have it. */
function primaryKey(table: PublishedTable): string | null {
  const isPossible = table.key.length > 0 && sortedKey(table).length === table.key.length;
  return isPossible ? `PRIMARY KEY (${list(table.key)}) NOT ENFORCED` : null;
}

/** Foreign key for tools and the optimizer; null if the table has none. */
function foreignKey({ schema, foreignKey: key }: PublishedTable, names: DatasetNames): string | null {
  if (!key) return null;
  return `FOREIGN KEY (${list(key.columns)}) REFERENCES ${tableName(names, schema, key.to)} (${list(key.toColumns)}) NOT ENFORCED`;
}

/** `ALTER TABLE` that adds columns; they are null in existing rows. */
function addColumns(table: PublishedTable, columns: readonly Column[], names: DatasetNames): string {
  const added = columns.map((c) => `  ADD COLUMN IF NOT EXISTS ${columnText(c, false)}`);
  return `ALTER TABLE ${tableName(names, table.schema, table.name)}\n${added.join(",\n")}`;
}

/** `CREATE TABLE` of the position table, with the row that every batch updates. */
function createPosition(names: DatasetNames): string {
  return (
    `CREATE TABLE IF NOT EXISTS ${positionTable(names)}\n` +
    `OPTIONS (description = 'The last batch committed to these datasets. pii: none', labels = [("application", "person-etl")]${encryption(names)})\n` +
    `AS SELECT 0 AS number, CAST(NULL AS STRING) AS id, CAST(NULL AS TIMESTAMP) AS published_at`
  );
}

export function createView(
  view: View,
  names: DatasetNames,
  schemas: ReadonlyMap<string, PublishedSchema>,
): string {
  const ref = (name: string) => tableName(names, schemas.get(name) ?? "data", name);
  const columns = view.columns.map((c) => {
    const description = quoteLiteral(columnDescription(c));
    return `  ${quoteIdentifier(c.name)} OPTIONS (description = ${description})`;
  });
  return (
    `CREATE OR REPLACE VIEW ${tableName(names, view.schema, view.name)} (\n${columns.join(",\n")}\n)\n` +
    `OPTIONS (description = ${quoteLiteral(`${view.doc} pii: ${strictestPii(view.columns)}`)}) AS\n` +
    view.select("bigquery", ref)
  );
}

function columnText(c: Column, isRequired: boolean): string {
  // A list is never null in BigQuery, and doesn't support NOT NULL.
  const type = `${columnType(c)}${isRequired && elementType(c.type) === null ? " NOT NULL" : ""}`;
  return `${quoteIdentifier(c.name)} ${type} OPTIONS (description = ${quoteLiteral(columnDescription(c))})`;
}

/** Description of a column, with its PII class. */
function columnDescription(c: Column): string {
  return `${c.doc} pii: ${c.pii}`;
}

/** Description of a table, with the strictest PII class of its columns. */
function tableDescription(table: PublishedTable): string {
  return `${table.doc} pii: ${strictestPii(table.columns)}`;
}

const BY_STRICTNESS = ["sensitive", "direct", "indirect"] as const;

function strictestPii(columns: readonly Column[]): PiiClass {
  return BY_STRICTNESS.find((pii) => columns.some((c) => c.pii === pii)) ?? "none";
}

interface Field {
  readonly name: string;
  readonly description?: string;
}

interface TableResource {
  readonly schema?: { readonly fields?: readonly Field[] };
  readonly labels?: Readonly<Record<string, string>>;
  readonly tableConstraints?: { readonly primaryKey?: object; readonly foreignKeys?: readonly object[] };
}

function statementsOf(
  tables: readonly PublishedTable[],
  catalog: Catalog,
  names: DatasetNames,
): readonly string[] {
  const schemas = new Map([...catalog.tables, ...catalog.views].map(({ name, schema }) => [name, schema]));
  return [
    createPosition(names),
    ...tables.map((table) => createTable(table, names)),
    ...catalog.views.map((view) => createView(view, names, schemas)),
  ];
}

/** A dataset in the form of the API. */
interface Dataset {
  readonly location: string;
  readonly defaultTableExpirationMs?: string;
  readonly defaultPartitionExpirationMs?: string;
}

/** A dataset by its name, as it is found. */
export interface FoundDataset {
  readonly name: string;
  /** Null if it doesn't exist yet. */
  readonly dataset: Dataset | null;
  /** Why it can't be used with the others: it is in another location. */
  readonly problem: Problem | null;
}

/** Reads the datasets, and the location of all; null if none exists and none is configured. */
export async function readDatasets(client: Client, names: DatasetNames, where: NamedProject) {
  const all = await Promise.all(
    [...new Set([names.data, names.ops, names.staging])].map(async (name) => {
      const request = client.send<Dataset>({ method: "GET", path: `/datasets/${name}` });
      return { name, dataset: await orMissing(request) };
    }),
  );
  const first = all.find(({ dataset }) => dataset !== null);
  const expected = where.location ?? first?.dataset?.location ?? null;
  const datasets = all.map(({ name, dataset }): FoundDataset => {
    const location = dataset?.location ?? expected;
    if (location?.toUpperCase() === expected?.toUpperCase()) return { name, dataset, problem: null };
    const setting = `${where.path}.location`;
    const isSet = where.location !== null;
    const other = isSet ? `${setting} is` : `dataset ${first?.name} is in`;
    const message = `Dataset ${name} is in ${location}, but ${other} ${expected}`;
    const hint = `${isSet ? `Set ${setting}: ${location}, or choose` : "Choose"} another dataset; all must be in one location, and datasets can't be moved.`;
    return { name, dataset, problem: { path: setting, message, hint } };
  });
  return { datasets, location: first?.dataset?.location ?? where.location };
}

/** Datasets that exist. */
export interface OpenDatasets {
  readonly client: Client;
  readonly names: DatasetNames;
  readonly location: string;
}

/** Creates missing datasets; all jobs run in their location. Changes nothing if they can't be used together. */
export async function openDatasets(
  client: Client,
  names: DatasetNames,
  where: NamedProject,
): Promise<OpenDatasets> {
  const { datasets, ...found } = await readDatasets(client, names, where);
  const problems = datasets.flatMap(({ problem }) => (problem === null ? [] : [problem]));
  const [first] = problems;
  if (first) throw new FixConfigurationError("database_refused", `${first.message}.`, problems);
  let { location } = found;
  for (const { name, dataset } of datasets) {
    if (dataset === null) location = await createDataset(client, name, location, names.kmsKey);
  }
  if (location === null) throw new Error("a dataset has no location");
  return { client, names, location };
}

async function createDataset(
  client: Client,
  datasetId: string,
  location: string | null,
  kmsKey: string | null,
): Promise<string> {
  const created = await client.send<Dataset>({
    method: "POST",
    path: "/datasets",
    body: {
      datasetReference: { projectId: client.project, datasetId },
      ...(location === null ? {} : { location }),
      ...(kmsKey === null ? {} : { defaultEncryptionConfiguration: { kmsKeyName: kmsKey } }),
      labels: client.labels,
    },
  });
  return created.location;
}

/** Creates missing tables and drops those no longer published. A label of the position table records the catalog. */
export async function migrateDatasets(
  { client, names, location }: OpenDatasets,
  catalog: Catalog,
): Promise<void> {
  const all = statementsOf(catalog.tables, catalog, names);
  const hash = createHash("sha256").update(JSON.stringify(all)).digest("hex").slice(0, 32);
  const existing = await listBoth(client, names);
  const dropped = catalog.dropped.filter(({ schema, name }) => existing[schema].has(name));
  for (const table of dropped) await client.send({ method: "DELETE", path: pathOf(names, table) });
  const hasAll = [...catalog.tables, ...catalog.views].every(({ schema, name }) =>
    existing[schema].has(name),
  );
  const positionPath = `/datasets/${names.ops}/tables/${POSITION_TABLE}`;
  if (hasAll && existing.ops.has(POSITION_TABLE)) {
    const { labels } = await client.send<TableResource>({ method: "GET", path: positionPath });
    if (labels?.[CATALOG_LABEL] === hash) return;
  }
  const old = catalog.tables.filter(({ schema, name }) => existing[schema].has(name));
  const added = await Promise.all(old.map((table) => additionsTo(client, names, table)));
  const missing = catalog.tables.filter((table) => !old.includes(table));
  const script = [
    ...added.flatMap(({ before }) => before),
    ...statementsOf(missing, catalog, names),
    ...added.flatMap(({ after }) => after),
  ]
    .map((statement) => `${statement};\n`)
    .join("\n");
  const id = `person_etl_migrate_${names.data}_${hash}_${Date.now()}`;
  await runJob(client, { id, location }, (reference) =>
    insertJob(client, reference, {
      labels: client.labels,
      query: { useLegacySql: false, query: script },
    }),
  );
  for (const table of old) await describeTable(client, names, table);
  await client.send({
    method: "PATCH",
    path: positionPath,
    body: { labels: { ...client.labels, [CATALOG_LABEL]: hash } },
  });
}

function pathOf(names: DatasetNames, { schema, name }: Pick<PublishedTable, "schema" | "name">): string {
  return `/datasets/${names[schema]}/tables/${name}`;
}

/** Statements that add what a table of an earlier version lacks, before and after missing tables are created. */
async function additionsTo(client: Client, names: DatasetNames, table: PublishedTable) {
  const { schema, tableConstraints } = await client.send<TableResource>({
    method: "GET",
    path: pathOf(names, table),
  });
  const present = new Set((schema?.fields ?? []).map(({ name }) => name));
  const missing = table.columns.filter(({ name }) => !present.has(name));
  const { primaryKey: key, foreignKeys = [] } = tableConstraints ?? {};
  const add = (one: string | null) =>
    one === null ? [] : [`ALTER TABLE ${tableName(names, table.schema, table.name)} ADD ${one}`];
  return {
    before: [
      ...(missing.length === 0 ? [] : [addColumns(table, missing, names)]),
      ...(key === undefined ? add(primaryKey(table)) : []),
    ],
    after: foreignKeys.length === 0 ? add(foreignKey(table, names)) : [],
  };
}

async function describeTable(client: Client, names: DatasetNames, table: PublishedTable): Promise<void> {
  const path = pathOf(names, table);
  const descriptions = new Map(table.columns.map((c) => [c.name, columnDescription(c)]));
  const { schema } = await client.send<TableResource>({ method: "GET", path });
  const fields = (schema?.fields ?? []).map((field) => {
    const description = descriptions.get(field.name);
    return description === undefined ? field : { ...field, description };
  });
  await client.send({
    method: "PATCH",
    path,
    body: { description: tableDescription(table), schema: { fields } },
  });
}

export async function listBoth(client: Client, names: DatasetNames) {
  return {
    data: new Set(await listTables(client, names.data)),
    ops: new Set(await listTables(client, names.ops)),
  };
}

/** Names of all tables and views of a dataset. */
export async function listTables(client: Client, dataset: string): Promise<readonly string[]> {
  const found: string[] = [];
  let pageToken: string | undefined;
  do {
    const page = await client.send<{
      readonly tables?: readonly { readonly tableReference: { readonly tableId: string } }[];
      readonly nextPageToken?: string;
    }>({ method: "GET", path: `/datasets/${dataset}/tables`, query: { maxResults: 1000, pageToken } });
    found.push(...(page.tables ?? []).map(({ tableReference }) => tableReference.tableId));
    pageToken = page.nextPageToken;
  } while (pageToken);
  return found;
}
