import type { Db } from "../load/db/db.ts";
import { isMigrated, notSetUp, requireSetUp } from "../load/db/setup.ts";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import type { Config } from "../config/config.ts";
import { openEmbedded } from "../load/embedded/open-embedded.ts";
import { openWarehouse, type WarehouseTarget } from "../load/open.ts";
import type { Context } from "./context.ts";

/** Reachable warehouse. */
export interface OpenedWarehouse {
  readonly db: Db;
  /** Lines for the user about connecting psql and BI tools; empty for the user's own Postgres. */
  readonly howToConnect: readonly string[];
  /** Lets people and BI tools read an embedded database with schemas created since the start. */
  readonly grantReading: () => Promise<void>;
}

/** Opens the configured warehouse, starts the embedded database if necessary, and checks that it is reachable. */
export async function openConfiguredWarehouse(context: Context, config: Config): Promise<OpenedWarehouse> {
  const { log, scope, stop } = context;
  const { url, schema, opsSchema, stateSchema } = config.warehouse;
  if (url !== "embedded") {
    const db = openWarehouse(await targetOf(config));
    scope.defer("warehouse", () => db.close());
    await isMigrated(db);
    return { db, howToConnect: [], grantReading: async () => {} };
  }
  context.notify("Starting the embedded database …");
  const server = await openEmbedded({
    dataDir: config.dataDir,
    log,
    readableSchemas: [schema, opsSchema],
    signal: stop.signal,
  });
  scope.deferProgram("embedded database", () => server.close());
  const db = openWarehouse({
    url: server.connectionString,
    schema,
    opsSchema,
    stateSchema,
    ...erasureKeyOf(config),
  });
  scope.defer("warehouse", () => db.close());
  await isMigrated(db);
  return { db, howToConnect: server.howToConnect, grantReading: () => server.grantReading() };
}

/** Opens the warehouse for a command that reads stored data; throws if there are no tables. Creates nothing. */
export async function openFilledWarehouse(context: Context, config: Config): Promise<Db> {
  if (await isNotCreatedYet(config)) throw notSetUp();
  const { db } = await openConfiguredWarehouse(context, config);
  await requireSetUp(db);
  return db;
}

/** Address of the configured warehouse; a placeholder for the embedded one. */
async function targetOf(config: Config): Promise<WarehouseTarget> {
  const { warehouse } = config;
  const { url, allowInsecure, schema, opsSchema, stateSchema } = warehouse;
  const schemas = { schema, opsSchema, stateSchema, ...erasureKeyOf(config) };
  if (url === "embedded") return { url: "postgresql:///", ...schemas };
  return { url: await url.read(), readUrl: () => url.read(), allowInsecure, ...schemas };
}

/** Opens the configured warehouse without connecting. */
export async function openUnconnected(config: Config): Promise<Db> {
  return openWarehouse(await targetOf(config));
}

function erasureKeyOf({ privacy: { erasureKey } }: Config): { readErasureSecret?: () => Promise<string> } {
  return erasureKey ? { readErasureSecret: () => erasureKey.read() } : {};
}

/** True for an embedded database that does not exist yet; read-only commands must not create it. */
export async function isNotCreatedYet({
  warehouse,
  dataDir,
}: Pick<Config, "dataDir"> & { readonly warehouse: Pick<Config["warehouse"], "url"> }): Promise<boolean> {
  if (warehouse.url !== "embedded") return false;
  const password = await stat(join(dataDir, "postgres", "password")).catch(() => null);
  return password === null;
}
