import { createHash } from "node:crypto";
import type { Client } from "../../bigquery/client.ts";
import { isNotFound } from "../../bigquery/failure.ts";
import { insertJob, runJob } from "../../bigquery/jobs.ts";
import { LABELS } from "../../bigquery/session.ts";
import type { PublishedSchema } from "../../schemas/table.ts";
import type { Catalog, PublishedTable } from "../destination.ts";
import {
  addColumns,
  CATALOG_LABEL,
  columnDescription,
  createPosition,
  createTable,
  createView,
  type DatasetNames,
  POSITION_TABLE,
  tableDescription,
} from "./ddl.ts";
import { listTables } from "./stage.ts";

interface Field {
  readonly name: string;
  readonly description?: string;
}

interface TableResource {
  readonly schema?: { readonly fields?: readonly Field[] };
  readonly labels?: Readonly<Record<string, string>>;
}

/** Statements that create tables, and all views. */
export function statementsOf(
  tables: readonly PublishedTable[],
  catalog: Catalog,
  names: DatasetNames,
): readonly string[] {
  const schemas = schemasOf(catalog);
  return [
    createPosition(names),
    ...tables.map((table) => createTable(table, names)),
    ...catalog.views.map((view) => createView(view, names, schemas)),
  ];
}

/** Creates a dataset if it is missing; returns its location. */
export async function openDataset(client: Client, dataset: string, location: string | null): Promise<string> {
  const path = `/datasets/${dataset}`;
  try {
    return (await client.send<{ readonly location: string }>({ method: "GET", path })).location;
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  const created = await client.send<{ readonly location: string }>({
    method: "POST",
    path: "/datasets",
    body: {
      datasetReference: { projectId: client.project, datasetId: dataset },
      ...(location === null ? {} : { location }),
      labels: LABELS,
    },
  });
  return created.location;
}

/** Creates missing tables and drops those no longer published. A label of the position table records the catalog. */
export async function migrateDatasets(
  {
    client,
    names,
    location,
  }: { readonly client: Client; readonly names: DatasetNames; readonly location: string },
  catalog: Catalog,
): Promise<void> {
  const all = statementsOf(catalog.tables, catalog, names);
  const hash = createHash("sha256").update(JSON.stringify(all)).digest("hex").slice(0, 32);
  const existing = {
    data: new Set(await listTables(client, names.data)),
    ops: new Set(await listTables(client, names.ops)),
  };
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
  const added = (await Promise.all(old.map((table) => missingColumns(client, names, table)))).flat();
  const missing = catalog.tables.filter((table) => !old.includes(table));
  const script = [...added, ...statementsOf(missing, catalog, names)]
    .map((statement) => `${statement};\n`)
    .join("\n");
  const id = `person_etl_migrate_${names.data}_${hash}_${Date.now()}`;
  await runJob(client, { id, location }, (reference) =>
    insertJob(client, reference, { labels: LABELS, query: { useLegacySql: false, query: script } }),
  );
  for (const table of old) await describeTable(client, names, table);
  await client.send({
    method: "PATCH",
    path: positionPath,
    body: { labels: { ...LABELS, [CATALOG_LABEL]: hash } },
  });
}

function schemasOf(catalog: Catalog): ReadonlyMap<string, PublishedSchema> {
  return new Map([...catalog.tables, ...catalog.views].map(({ name, schema }) => [name, schema]));
}

function pathOf(names: DatasetNames, { schema, name }: Pick<PublishedTable, "schema" | "name">): string {
  return `/datasets/${names[schema]}/tables/${name}`;
}

async function fieldsOf(client: Client, path: string): Promise<readonly Field[]> {
  const { schema } = await client.send<TableResource>({ method: "GET", path });
  return schema?.fields ?? [];
}

async function missingColumns(
  client: Client,
  names: DatasetNames,
  table: PublishedTable,
): Promise<readonly string[]> {
  const present = new Set((await fieldsOf(client, pathOf(names, table))).map(({ name }) => name));
  const missing = table.columns.filter(({ name }) => !present.has(name));
  return missing.length === 0 ? [] : [addColumns(table, missing, names)];
}

/** Updates the comments of a table. */
async function describeTable(client: Client, names: DatasetNames, table: PublishedTable): Promise<void> {
  const path = pathOf(names, table);
  const descriptions = new Map(table.columns.map((c) => [c.name, columnDescription(c)]));
  const fields = (await fieldsOf(client, path)).map((field) => {
    const description = descriptions.get(field.name);
    return description === undefined ? field : { ...field, description };
  });
  await client.send({
    method: "PATCH",
    path,
    body: { description: tableDescription(table), schema: { fields } },
  });
}
