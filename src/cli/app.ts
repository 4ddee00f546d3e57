import { randomUUID } from "node:crypto";
import { lstat, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Context } from "./command.ts";
import { startSandboxService } from "./commands/sandbox.ts";
import { systemClock } from "../clock.ts";
import type { Config, DestinationConfig } from "../config/config.ts";
import { loadConfig } from "../config/load-config.ts";
import type { SecretReference } from "../config/secrets.ts";
import { locateConfig } from "../config/settings.ts";
import { codeOf, FixConfigurationError } from "../errors.ts";
import { type HttpClient, openHttpClient } from "../extract/http-client.ts";
import { createLimiter, type Limiter } from "../extract/limits.ts";
import { limitGarbage } from "../garbage.ts";
import { createPublisher, type Publisher, type ScheduledPublication } from "../jobs/publish/publisher.ts";
import { jobTypes } from "../jobs/registry.ts";
import type { JobServices } from "../jobs/services.ts";
import type { Db, WarehouseTarget } from "../load/db/db.ts";
import { isMigrated, notSetUp, requireSetUp } from "../load/db/migrate.ts";
import { openWarehouse } from "../load/open.ts";
import type { Log } from "../log.ts";
import { createOutageReport } from "../outage-report.ts";
import { lockFile, otherWriterOf } from "../process-state.ts";
import { readPostgresAddress } from "../postgres-address.ts";
import { declaredCatalog, type Destination } from "../publish/destination.ts";

/** Loads the configuration and hides its secrets from all output. */
export async function openConfig(context: Context): Promise<Config> {
  const { options, env, log, scrubber } = context;
  const config = await loadConfig({
    jobTypes,
    file: locateConfig(options.config ?? undefined, env),
    env,
    logLevel: options.logLevel ?? undefined,
  });
  context.loaded.lineOf = config.lineOf;
  log.setLevel(config.logLevel);
  await refuseForeignFolder(config.dataDir);
  const { apiKey, userApiKey } = config.service;
  const secrets = [apiKey, userApiKey, config.privacy.erasureKey, config.http.token, config.alerts?.webhook];
  for (const secret of secrets) if (secret) scrubber.hide(await secret.read());
  const connections = Object.values(config.connections);
  const urls = connections.map((connection) => (connection.type === "postgres" ? connection.url : null));
  for (const url of [config.warehouse.url, ...urls]) {
    if (url !== null && url !== "embedded") scrubber.hide(readPostgresAddress(await url.read()).password);
  }
  for (const { path, message, line, hint } of config.warnings)
    log.warn({ path, message, line, hint }, "configuration");
  return config;
}

/** Refuses, as root, a data_dir that other users can change. */
export async function refuseForeignFolder(dataDir: string): Promise<void> {
  const why = await otherWriterOf(dataDir);
  if (why === null) return;
  const message = `data_dir ${dataDir} ${why}, and root uses only folders of its own that nobody else can write to.`;
  const hint =
    "run person-etl as another user, correct owner and mode (chown root, chmod go-w), or choose another data_dir";
  throw new FixConfigurationError("data_dir_owner", message, [{ path: "data_dir", message: why, hint }]);
}

/**
 * Opens the configured warehouse, starts the embedded database if necessary, and checks that it is reachable. `howToConnect` has
 * lines for the user about connecting psql and BI tools; none for the user's own Postgres.
 */
export async function openWarehouseOf(context: Context, config: Config) {
  const { log, scope, stop } = context;
  const { url, schema, opsSchema } = config.warehouse;
  let target: WarehouseTarget = { ...(await warehouseTarget(config)), log };
  let howToConnect: readonly string[] = [];
  if (url === "embedded") {
    context.notify("Starting the embedded database …");
    const { openEmbedded } = await import("../load/embedded/open.ts");
    const readableSchemas = [schema, opsSchema];
    const server = await openEmbedded({ dataDir: config.dataDir, log, readableSchemas, signal: stop.signal });
    scope.deferProgram("embedded database", () => server.close());
    target = { ...target, url: server.connectionString };
    howToConnect = server.howToConnect;
  }
  const db = openWarehouse(target);
  scope.defer("warehouse", () => db.close());
  // Fails here if the database can't be reached.
  await isMigrated(db);
  return { db, howToConnect };
}

/** Opens the warehouse for a command that reads stored data; throws if there are no tables. Creates nothing. */
export async function openFilledWarehouse(context: Context, config: Config): Promise<Db> {
  if (await isNotCreatedYet(config.warehouse.url, config.dataDir)) throw notSetUp();
  const { db } = await openWarehouseOf(context, config);
  await requireSetUp(db);
  return db;
}

export async function openFilled(context: Context): Promise<{ readonly config: Config; readonly db: Db }> {
  const config = await openConfig(context);
  return { config, db: await openFilledWarehouse(context, config) };
}

/** Address of the configured warehouse; a placeholder for the embedded one. */
async function warehouseTarget({ warehouse, privacy, extraColumns }: Config): Promise<WarehouseTarget> {
  const { url, allowInsecure, schema, opsSchema, stateSchema } = warehouse;
  const { erasureKey } = privacy;
  const key = erasureKey ? { readErasureSecret: () => erasureKey.read() } : {};
  const schemas = { schema, opsSchema, stateSchema, extraColumns: extraColumns.person, ...key };
  if (url === "embedded") return { url: "postgresql:///", ...schemas };
  return { url: await url.read(), readUrl: () => url.read(), allowInsecure, ...schemas };
}

export async function openUnconnected(config: Config): Promise<Db> {
  return openWarehouse(await warehouseTarget(config));
}

/** True for an embedded database that does not exist yet; read-only commands must not create it. */
export async function isNotCreatedYet(url: Config["warehouse"]["url"], dataDir: string): Promise<boolean> {
  if (url !== "embedded") return false;
  const password = await stat(join(dataDir, "postgres", "password")).catch(() => null);
  return password === null;
}

async function readSecret({ scrubber }: Context, secret: SecretReference | null): Promise<string> {
  // The sandbox accepts almost any key.
  if (secret === null) return "sandbox";
  const key = await secret.read();
  scrubber.hide(key);
  return key;
}

/** Opens the configured service, and starts the sandbox if configured. Sends nothing. Each limiter starts without history. */
export async function openService(
  context: Context,
  config: Config,
): Promise<{ readonly http: HttpClient; readonly createLimiter: () => Limiter }> {
  const { service } = config;
  const { apiKey, userApiKey } = service;
  const baseUrl =
    service.baseUrl === "sandbox" ? await startSandboxService(context, config) : service.baseUrl;
  const http = openHttpClient({
    baseUrl,
    endpoints: service.endpoints,
    concurrency: service.concurrency,
    caFile: service.ca,
    stop: context.stop.signal,
    readKey: () => readSecret(context, apiKey),
    ...(userApiKey === null ? {} : { readUserKey: () => readSecret(context, userApiKey) }),
  });
  context.scope.defer("connections to the service", () => http.close());
  const limits = Object.entries(service.limits).flatMap(([path, { requestsPerSecond }]) =>
    ["GET", "POST"].map((method) => [`${method} ${path}`, requestsPerSecond] as const),
  );
  return {
    http,
    createLimiter: () =>
      createLimiter({
        concurrency: service.concurrency,
        requestsPerSecond: service.requestsPerSecond,
        endpointRequestsPerSecond: Object.fromEntries(limits),
        clock: systemClock,
        service: http.origin,
        log: context.log,
      }),
  };
}

/** Services of work on a warehouse that makes no calls. */
export function localServices(
  { log, stop, progress }: Context,
  config: Config,
  db: Db,
): Omit<JobServices, "http" | "limiter"> {
  return { config, db, clock: systemClock, log, signal: stop.signal, random: Math.random, progress };
}

export async function openJobServices(context: Context, config: Config, db: Db): Promise<JobServices> {
  const { http, createLimiter } = await openService(context, config);
  limitGarbage();
  return { ...localServices(context, config, db), http, limiter: createLimiter() };
}

type OpenDestination = Pick<ScheduledPublication, "destination" | "catalog" | "everyMs">;

/** Opens the configured destinations; each connects on first use. */
export async function openDestinations(
  config: Config,
  signal: AbortSignal,
  log: Log,
): Promise<readonly OpenDestination[]> {
  return await Promise.all(
    config.publish.map(async (destination) => ({
      destination: await openDestination(destination, config, signal, log),
      catalog: declaredCatalog(destination.tables, config.extraColumns.person),
      everyMs: destination.everyMs,
    })),
  );
}

export async function openPublisher(
  {
    log,
    stop,
    scope,
  }: Pick<Context, "scope"> & { readonly log: Log; readonly stop: Pick<Context["stop"], "signal"> },
  config: Config,
  db: Db,
): Promise<Publisher> {
  const destinations = await openDestinations(config, stop.signal, log);
  const publisher = createPublisher(
    destinations.map((opened) => ({
      ...opened,
      db,
      log,
      signal: stop.signal,
      folder: rowsFolderOf(config, opened.destination.name),
    })),
  );
  scope.defer("destinations", () => publisher.close());
  limitGarbage();
  return publisher;
}

/** Engines with working files, each of which has its own lock of a destination. */
const ENGINES = ["duckdb", "iceberg"] as const;

/** Lists the working files of a destination, which contain personal data. Its locks aren't among them: a process may be taking one. */
export async function workingFilesOf(config: Config, name: string): Promise<readonly string[]> {
  const folder = folderOf(config);
  const own = ENGINES.flatMap((engine) =>
    ["duckdb", "duckdb.wal", "duckdb.new", "duckdb.new.wal", "tmp", "staged"].map((kind) =>
      join(folder, engine, `${name}.${kind}`),
    ),
  );
  return existing([rowsFolderOf(config, name), ...own]);
}

/** Folder of the rows on their way to a destination, which removes all else in it: apart from the engines' files, whatever its name is. */
const rowsFolderOf = (config: Config, name: string) => join(folderOf(config), "rows", name);

async function existing(paths: readonly string[]): Promise<readonly string[]> {
  const found = await Promise.all(paths.map((path) => lstat(path).catch(() => null)));
  return paths.filter((_, i) => found[i] !== null);
}

/** Removes the working files of a destination; false if another process is publishing to it, whose files stay. */
export async function removeWorkingFiles(config: Config, name: string): Promise<boolean> {
  const folders = await existing(ENGINES.map((engine) => join(folderOf(config), engine)));
  const locks: { release(): void }[] = [];
  try {
    for (const folder of folders) {
      const lock = await lockFile(join(folder, `${name}.lock`));
      if (lock === null) return false;
      locks.push(lock);
    }
    for (const path of await workingFilesOf(config, name)) await rm(path, { recursive: true, force: true });
    return true;
  } finally {
    for (const lock of locks) lock.release();
  }
}

function folderOf({ dataDir }: Config): string {
  return join(dataDir, "publish");
}

/** Loads the modules of a destination's engine, which other configurations don't need, and opens it. */
async function openDestination(
  destination: DestinationConfig,
  config: Config,
  signal: AbortSignal,
  log: Log,
): Promise<Destination> {
  const subject = `Destination ${destination.name} (${destination.type})`;
  const outage = createOutageReport({ clock: systemClock, log, name: "destination", subject });
  if (destination.type === "bigquery") {
    const { openBigQueryDestination } = await import("../publish/bigquery/destination.ts");
    return openBigQueryDestination({ ...destination, signal, outage });
  }
  if (destination.type === "iceberg") {
    const { openIcebergDestination } = await import("../publish/iceberg/destination.ts");
    return openIcebergDestination({ ...destination, outage, folder: join(folderOf(config), "iceberg") });
  }
  const { openDuckDbDestination } = await import("../publish/duckdb/destination.ts");
  const { schema, opsSchema } = config.warehouse;
  const { name, path } = destination;
  const folder = join(folderOf(config), "duckdb");
  return openDuckDbDestination({ name, path, folder, schemas: { data: schema, ops: opsSchema } });
}

/** Reads the token of the pages; an unknown random one while it can't be read, which keeps them inaccessible. */
export async function readToken({ scrubber, log }: Context, { http }: Config): Promise<string> {
  try {
    const token = (await http.token?.read()) ?? randomUUID();
    scrubber.hide(token);
    return token;
  } catch (error) {
    log.warn({ code: codeOf(error) }, "token_unreadable");
    return randomUUID();
  }
}
