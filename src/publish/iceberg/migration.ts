import { quoted, type View } from "../../schemas/views/view.ts";
import type { Catalog, PublishedTable } from "../destination.ts";
import { isConflict } from "./catalog.ts";
import { dropTable, refuseShared } from "./cleaning.ts";
import type { LoadedView, TableName, ViewDefinition } from "./specification.ts";
import { identifierOf, isOwn, propertiesOf, schemaOf, schemaUpdates } from "./tables.ts";
import type { Workspace } from "./workspace.ts";

/** Creates namespaces, tables and views, adds columns and descriptions, and drops what is no longer published. */
export async function migrateAll(workspace: Workspace, { tables, views, dropped }: Catalog): Promise<void> {
  const { catalog, namespaces, nameOf } = workspace;
  const existing = new Map<string, ReadonlySet<string>>();
  for (const namespace of namespaces) {
    await catalog.createNamespace(namespace);
    existing.set(namespace, new Set(await catalog.listTables(namespace)));
  }
  const isThere = (table: Pick<PublishedTable, "schema" | "name">) =>
    existing.get(nameOf(table).namespace)?.has(table.name) ?? false;
  await dropTables(workspace, dropped.filter(isThere).map(nameOf));
  for (const table of tables) {
    await (isThere(table) ? completeTable(workspace, table) : createTable(workspace, table));
  }
  await migrateViews(workspace, { tables, views });
}

async function dropTables(workspace: Workspace, names: readonly TableName[]): Promise<void> {
  if (names.length === 0) return;
  const all = await workspace.loadAll();
  refuseShared(all);
  const ours = all.filter(({ table, metadata }) => isOwn(table, metadata));
  for (const { namespace, name } of names) {
    const found = ours.find(({ table }) => table.namespace === namespace && table.name === name);
    if (found) await dropTable(workspace, found);
  }
}

async function createTable(workspace: Workspace, table: PublishedTable): Promise<void> {
  const { catalog, nameOf } = workspace;
  const name = nameOf(table);
  await catalog
    .createTable(name, schemaOf(table, null), propertiesOf(table))
    .catch(async (error: unknown) => {
      // A view, if no other process has created the table.
      throw isConflict(error) && !(await catalog.loadTable(name)) ? taken(workspace, name) : error;
    });
}

/** Adds columns that a table lacks, and updates its descriptions. */
async function completeTable({ catalog, nameOf, load }: Workspace, table: PublishedTable): Promise<void> {
  const { metadata } = await load(table);
  const updates = schemaUpdates(table, metadata);
  if (updates.length === 0) return;
  const requirements = [
    { type: "assert-table-uuid", uuid: metadata["table-uuid"] },
    { type: "assert-current-schema-id", "current-schema-id": metadata["current-schema-id"] },
  ];
  await catalog.commit([{ identifier: identifierOf(nameOf(table)), requirements, updates }]);
}

const taken = ({ refused }: Workspace, { name }: TableName) =>
  refused(
    `a table or view ${name} exists that person-etl didn't create`,
    "Rename it, or use other namespaces.",
  );

/** Property of views that this program created, with the name that it gave them. */
const OWN_PROPERTY = "person-etl.view";

/** Definition of a view in Spark's SQL. The specification has a text for each engine; other engines don't see the view. */
function define(view: View, { namespace }: TableName, ref: (name: string) => string): ViewDefinition {
  // Spark reads UUIDs as texts.
  const columns = view.columns.map((column) =>
    column.type === "uuid" ? ({ ...column, type: "text" } as const) : column,
  );
  return {
    schema: schemaOf({ columns }, null),
    version: {
      "version-id": 1,
      "timestamp-ms": Date.now(),
      "schema-id": 0,
      summary: {},
      "default-namespace": [namespace],
      representations: [{ type: "sql", sql: view.select("spark", ref), dialect: "spark" }],
    },
    properties: { comment: view.doc, [OWN_PROPERTY]: view.name },
  };
}

/** Form in which the definitions of equal views are equal; catalogs complete the rest. */
function textOf({ schema, version, properties }: ViewDefinition): string {
  const fields = schema.fields.map(({ name, type, doc }) => [name, type, doc]);
  const { representations } = version;
  return JSON.stringify([fields, representations, properties["comment"], properties[OWN_PROPERTY]]);
}

function currentDefinition({ metadata }: LoadedView): ViewDefinition | null {
  const version = metadata.versions.find((entry) => entry["version-id"] === metadata["current-version-id"]);
  const schema = metadata.schemas.find((entry) => entry["schema-id"] === version?.["schema-id"]);
  return version && schema ? { schema, version, properties: metadata.properties ?? {} } : null;
}

/** Creates and replaces views, and drops own ones that are no longer declared. Does nothing if the catalog has no views. */
async function migrateViews(
  workspace: Workspace,
  { tables, views }: Pick<Catalog, "tables" | "views">,
): Promise<void> {
  const { catalog, namespaces, nameOf } = workspace;
  if (!(await catalog.hasViews(namespaces[0] ?? ""))) return;
  const schemas = new Map([...tables, ...views].map(({ name, schema }) => [name, schema]));
  const ref = (known: string) => {
    const { namespace, name } = nameOf({ schema: schemas.get(known) ?? "data", name: known });
    return `${quoted("spark", namespace)}.${quoted("spark", name)}`;
  };
  const declared = new Set<string>();
  for (const view of views) {
    const name = nameOf(view);
    declared.add(`${name.namespace}.${name.name}`);
    const wanted = define(view, name, ref);
    const existing = await catalog.loadView(name);
    if (existing && existing.metadata.properties?.[OWN_PROPERTY] !== view.name) throw taken(workspace, name);
    const current = existing && currentDefinition(existing);
    if (current && textOf(current) === textOf(wanted)) continue;
    if (existing) await catalog.dropView(name);
    await catalog.createView(name, wanted).catch(async (error: unknown) => {
      // A table, if no other process has created the view.
      throw isConflict(error) && !(await catalog.loadView(name)) ? taken(workspace, name) : error;
    });
  }
  for (const namespace of namespaces) {
    for (const name of await catalog.listViews(namespace)) {
      if (declared.has(`${namespace}.${name}`)) continue;
      const found = await catalog.loadView({ namespace, name });
      if (found?.metadata.properties?.[OWN_PROPERTY] === name) await catalog.dropView({ namespace, name });
    }
  }
}
