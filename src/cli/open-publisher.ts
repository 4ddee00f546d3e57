import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Config, DestinationConfig } from "../config/config.ts";
import { createPublisher, type Publisher, type ScheduledPublication } from "../jobs/publish/publisher.ts";
import type { Db } from "../load/db/db.ts";
import type { Log } from "../log.ts";
import { declaredCatalog } from "../publish/catalog.ts";
import { type DestinationTarget, openDestination } from "../publish/open.ts";

/** Configured destination with its catalog. */
type OpenDestination = Pick<ScheduledPublication, "destination" | "catalog" | "everyMs">;

/** Opens the configured destinations; each connects on first use. */
export function openDestinations(config: Config): readonly OpenDestination[] {
  return config.publish.map((destination) => ({
    destination: openDestination(targetOf(destination, config)),
    catalog: declaredCatalog(destination.tables),
    everyMs: destination.everyMs,
  }));
}

/** Opens the publisher for the configured destinations. */
export function openPublisher(
  config: Config,
  db: Db,
  options: { readonly log: Log; readonly signal?: AbortSignal },
): Publisher {
  return createPublisher(
    openDestinations(config).map((opened) => ({
      ...opened,
      ...options,
      db,
      folder: join(folderOf(config), opened.destination.name),
    })),
  );
}

/** Removes the working files of a dropped destination, which contain personal data. */
export async function removeWorkingFiles(config: Config, name: string): Promise<void> {
  const folder = folderOf(config);
  const own = join(folder, "duckdb", `${name}.duckdb`);
  const others = ["tmp", "staged"].map((kind) => join(folder, "duckdb", `${name}.${kind}`));
  const paths = [join(folder, name), own, `${own}.wal`, `${own}.new`, `${own}.new.wal`, ...others];
  await Promise.all(paths.map((path) => rm(path, { recursive: true, force: true })));
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
