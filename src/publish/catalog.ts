import { tables as declared, tableNamed } from "../schemas/registry.ts";
import { column, type Table } from "../schemas/table.ts";
import { views } from "../schemas/views/all-views.ts";
import type { View } from "../schemas/views/view.ts";
import type { Catalog, PublishedTable } from "./destination.ts";

/** Freshness of every table at a destination's last snapshot; a view in Postgres, a table in destinations. */
export const freshnessTable: PublishedTable = {
  name: "table_freshness",
  schema: "ops",
  doc: "Freshness of each table at the snapshot of the last batch that left no change waiting. Incremental readers read rows up to `safe_until`.",
  key: ["table_name"],
  root: "table_freshness",
  rootKey: ["table_name"],
  columns: [
    column("table_name", "text", "none", "The table.", true),
    column(
      "last_success_at",
      "timestamptz",
      "none",
      "End of the last success; runs that ended at your own cap or budget are included.",
    ),
    column("last_changed_at", "timestamptz", "none", "Last change of a row."),
    column("safe_until", "timestamptz", "none", "Every row with an older `_synced_at` is here."),
  ],
};

function published({ name, schema, doc, key, columns, parent }: Table): readonly PublishedTable[] {
  if (schema === "state") return [];
  return [{ name, schema, doc, key, columns, root: parent ?? name, rootKey: tableNamed(parent ?? name).key }];
}

/** Names of all tables that can be published. */
export const publishableNames: readonly string[] = declared.flatMap(published).map(({ name }) => name);

/** Builds the catalog of a destination with every declared view whose tables it has. */
export function declaredCatalog(only: readonly string[] | null): Catalog {
  return buildCatalog(views, only);
}

/** Adds views whose tables and views the catalog has. */
export function withViews(catalog: Catalog, views: readonly View[]): Catalog {
  const known = new Set([...catalog.tables, ...catalog.views].map(({ name }) => name));
  const added = views.filter(({ reads }) => reads.every((name) => known.has(name)));
  return { ...catalog, views: [...catalog.views, ...added] };
}

/** Builds the catalog of a destination. `only` lists its tables; null means all. */
export function buildCatalog(views: readonly View[], only: readonly string[] | null): Catalog {
  const names = new Set(only ?? publishableNames);
  const tables = declared.filter(({ name }) => names.has(name)).flatMap(published);
  const known = new Set(tables.map(({ name }) => name));
  // Freshness of unpublished tables would be misleading.
  if (only === null) known.add(freshnessTable.name);
  const kept: View[] = [];
  for (const view of views) {
    // Views that only Postgres can compute are published as tables of the same name.
    if (known.has(view.name) || !view.reads.every((name) => known.has(name))) continue;
    kept.push(view);
    known.add(view.name);
  }
  const all = only === null ? [...tables, freshnessTable] : tables;
  const dropped =
    only === null
      ? []
      : [...declared.flatMap(published), freshnessTable].filter(({ name }) => !names.has(name));
  return { tables: all, views: kept, dropped };
}
