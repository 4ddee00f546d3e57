import { quoted, type View } from "../../schemas/views/view.ts";
import { isConflict, type RestCatalog } from "./catalog.ts";
import type { IcebergSchema, LoadedView, TableName, ViewVersion } from "./specification.ts";
import { schemaOf } from "./tables.ts";

/** Property of views that this program created, with the name that it gave them. */
const OWN_PROPERTY = "person-etl.view";

interface Definition {
  readonly schema: IcebergSchema;
  readonly version: ViewVersion;
  readonly properties: Readonly<Record<string, string>>;
}

/** Definition of a view in Spark's SQL. The specification has a text for each engine; other engines don't see the view. */
function define(view: View, { namespace }: TableName, ref: (name: string) => string): Definition {
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
function textOf({ schema, version, properties }: Definition): string {
  const fields = schema.fields.map(({ name, type, doc }) => [name, type, doc]);
  const { representations } = version;
  return JSON.stringify([fields, representations, properties["comment"], properties[OWN_PROPERTY]]);
}

function currentDefinition({ metadata }: LoadedView): Definition | null {
  const version = metadata.versions.find((entry) => entry["version-id"] === metadata["current-version-id"]);
  const schema = metadata.schemas.find((entry) => entry["schema-id"] === version?.["schema-id"]);
  return version && schema ? { schema, version, properties: metadata.properties ?? {} } : null;
}

interface DeclaredViews {
  readonly catalog: RestCatalog;
  readonly views: readonly View[];
  readonly namespaces: readonly string[];
  /** Name of a table or view in the catalog. */
  readonly nameOf: (entry: Pick<View, "schema" | "name">) => TableName;
  /** Error for a name that a table or view of others has. */
  readonly taken: (name: string) => Error;
  /** Schemas of tables and views, by name. */
  readonly schemas: ReadonlyMap<string, View["schema"]>;
}

/** Creates and replaces views, and drops own ones that are no longer declared. Does nothing if the catalog has no views. */
export async function migrateViews({
  catalog,
  views,
  namespaces,
  nameOf,
  taken,
  schemas,
}: DeclaredViews): Promise<void> {
  if (!(await catalog.hasViews(namespaces[0] ?? ""))) return;
  const ref = (name: string) => {
    const { namespace, name: own } = nameOf({ schema: schemas.get(name) ?? "data", name });
    return `${quoted("spark", namespace)}.${quoted("spark", own)}`;
  };
  const declared = new Set<string>();
  for (const view of views) {
    const name = nameOf(view);
    declared.add(`${name.namespace}.${name.name}`);
    const wanted = define(view, name, ref);
    const existing = await catalog.loadView(name);
    if (existing && existing.metadata.properties?.[OWN_PROPERTY] !== view.name) throw taken(view.name);
    const current = existing && currentDefinition(existing);
    if (current && textOf(current) === textOf(wanted)) continue;
    if (existing) await catalog.dropView(name);
    await catalog.createView(name, wanted).catch(async (error: unknown) => {
      // A table, if no other process has created the view.
      throw isConflict(error) && !(await catalog.loadView(name)) ? taken(view.name) : error;
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
