import { join } from "node:path";
import type { Config, DestinationConfig } from "../config/config.ts";
import type { Publication } from "../jobs/publish/publication.ts";
import { createPublisher, type Publisher } from "../jobs/publish/publisher.ts";
import type { Db } from "../load/db/db.ts";
import type { Log } from "../log.ts";
import { buildCatalog } from "../publish/catalog.ts";
import { type DestinationTarget, openDestination } from "../publish/open.ts";
import { views } from "../schemas/views.ts";

/** Opens the configured destinations; each connects at its first use. */
export function openPublications(
  config: Config,
  db: Db,
  { log, signal }: { readonly log: Log; readonly signal?: AbortSignal },
): readonly Publication[] {
  return config.publish.map((destination) => ({
    db,
    log,
    ...(signal ? { signal } : {}),
    destination: openDestination(targetOf(destination, config)),
    catalog: buildCatalog(views, destination.tables),
    folder: join(folderOf(config), destination.name),
  }));
}

/** Opens the publisher of the configured destinations. */
export function openPublisher(
  config: Config,
  db: Db,
  options: { readonly log: Log; readonly signal?: AbortSignal },
): Publisher {
  return createPublisher(openPublications(config, db, options));
}

function folderOf({ dataDir }: Config): string {
  return join(dataDir, "publish");
}

function targetOf(destination: DestinationConfig, config: Config): DestinationTarget {
  if (destination.type === "bigquery") return destination;
  const { schema, opsSchema } = config.warehouse;
  const { type, name, path } = destination;
  return {
    type,
    name,
    path,
    folder: join(folderOf(config), "duckdb"),
    schemas: { data: schema, ops: opsSchema },
  };
}
