import { randomBytes } from "node:crypto";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { codeOf, FixConfigurationError, JobLockedError, messageOf, StopRunError } from "../../errors.ts";
import { lockFile } from "../../process-state.ts";
import type { PublishedTable } from "../destination.ts";
import { type DuckSession, openDuckDb } from "../duckdb/session.ts";
import type { SchemaNames } from "../duckdb/statements.ts";
import { CatalogError, type CatalogOptions, isConflict, openCatalog } from "./catalog.ts";
import type { LoadedTable, TableName } from "./specification.ts";
import type { NamedTable } from "./cleaning.ts";
import type { RowFiles } from "./rows.ts";
import {
  isMissingFile,
  openStorage,
  placeOf,
  openStorageAgent,
  StorageError,
  UnreachableError,
  UntrustedAddressError,
  type Storage,
  type StorageOptions,
} from "../../object-store.ts";
import { currentSchema, folderOf, isOwn } from "./tables.ts";

/** Iceberg tables behind a REST catalog. */
export interface IcebergTarget extends CatalogOptions, StorageOptions {
  /** Name in the configuration. */
  readonly name: string;
  /** Namespaces of the tables on people, and of those on usage, runs and the ledger. */
  readonly namespace: string;
  readonly opsNamespace: string;
  /** Folder for local copies of files. */
  readonly folder: string;
}

/** Catalog, object store and local folder of a destination. */
export type Workspace = ReturnType<typeof openWorkspace>;

/** Opens a workspace; connects at the first use. */
export function openWorkspace(target: IcebergTarget) {
  const { name, folder } = target;
  const schemas: SchemaNames = { data: target.namespace, ops: target.opsNamespace };
  const namespaces = [...new Set(Object.values(schemas))];
  const catalog = openCatalog(target);
  const scratch = join(folder, `${name}.duckdb`);
  const staging = join(folder, `${name}.staged`);
  const copies = join(folder, `${name}.tmp`);
  const agent = openStorageAgent();
  let opened: Promise<DuckSession> | null = null;
  let lock: Awaited<ReturnType<typeof lockFile>> = null;
  /** Files that the attempt wrote into tables' folders, with the storage that they are in. */
  const uploads = new Map<string, Storage>();
  const nameOf = (table: Pick<PublishedTable, "schema" | "name">): TableName => ({
    namespace: schemas[table.schema],
    name: table.name,
  });
  /** Opens the store of a table, by its configuration in the catalog. */
  function storageOf(config: Readonly<Record<string, string>>): Storage {
    const storage = openStorage(target, config, agent);
    return {
      ...storage,
      write: (address, content) => {
        uploads.set(address, storage);
        return storage.write(address, content);
      },
      upload: (file, address) => {
        uploads.set(address, storage);
        return storage.upload(file, address);
      },
    };
  }

  async function removeScratch(): Promise<void> {
    for (const path of [scratch, `${scratch}.wal`, staging, copies])
      await rm(path, { recursive: true, force: true });
  }

  async function openScratch(): Promise<DuckSession> {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    lock ??= await lockFile(join(folder, `${name}.lock`));
    if (!lock) throw new JobLockedError(`${where}: another process is publishing to it. Try again later.`);
    await removeScratch();
    return openDuckDb(scratch, copies);
  }

  /** Opens DuckDB, which writes and reads data files, and locks the local files for this process. They have nothing that has to be kept. */
  function session(): Promise<DuckSession> {
    opened ??= openScratch().catch((error: unknown) => {
      opened = null;
      throw error;
    });
    return opened;
  }

  /** Removes what the attempt wrote into tables' folders, after it can no longer be committed. */
  async function removeUploads(): Promise<void> {
    for (const [address, storage] of uploads) await storage.remove(address);
  }

  /** Loads a table that this program created; throws if it can't be written. */
  async function load(table: Pick<PublishedTable, "schema" | "name">): Promise<LoadedTable> {
    const loaded = await catalog.loadTable(nameOf(table));
    if (!loaded)
      throw new StopRunError(
        "destination_failed",
        `${where}: the table ${table.name} is missing. Run \`publish ${name} --full\`.`,
      );
    if (!isOwn(nameOf(table), loaded.metadata)) {
      throw refused(`the table ${table.name} was not created by person-etl`, "Use other namespaces.");
    }
    if (loaded.metadata["format-version"] !== 2) {
      throw refused(
        `the table ${table.name} has another version of the format than 2`,
        "Use other namespaces.",
      );
    }
    const spec = loaded.metadata["partition-specs"].find(
      (entry) => entry["spec-id"] === loaded.metadata["default-spec-id"],
    );
    if ((spec?.fields.length ?? 0) > 0) {
      throw refused(`the table ${table.name} has partitions`, "Remove its partition fields.");
    }
    return loaded;
  }

  async function filesOf(
    table: PublishedTable,
    { metadata, config }: LoadedTable,
    prefix: string,
  ): Promise<RowFiles> {
    return {
      session: await session(),
      storage: storageOf(config),
      folder: copies,
      table,
      schema: currentSchema(metadata),
      address: `${folderOf(metadata)}/data`,
      prefix,
    };
  }

  const where = `Destination ${name} (${target.catalog})`;
  const refused = (message: string, hint: string) => refusal({ name, where }, message, hint);
  const explain = (error: unknown) => explainIceberg(error, { name, where });

  /** Loads all tables of the namespaces, those of others, too. */
  async function loadAll(): Promise<readonly NamedTable[]> {
    const all: NamedTable[] = [];
    for (const namespace of namespaces) {
      for (const table of await catalog.listTables(namespace)) {
        const loaded = await catalog.loadTable({ namespace, name: table });
        if (loaded) all.push({ ...loaded, table: { namespace, name: table } });
      }
    }
    return all;
  }

  /** Time by the clock of the object store, at most that of this machine: the age of files is measured by both. */
  async function storageTime({ metadata, config }: LoadedTable): Promise<number> {
    const storage = openStorage(target, config, agent);
    const folder = `${folderOf(metadata)}/metadata`;
    const address = `${folder}/${randomBytes(8).toString("hex")}.clock`;
    await storage.write(address, Buffer.alloc(0));
    const files = await storage.list(folder);
    await storage.remove(address);
    const written = files.find((file) => placeOf(file.address) === placeOf(address));
    if (!written)
      throw new StopRunError("destination_failed", `${where}: ${folder} doesn't list a new file.`);
    return Math.min(Date.now(), written.writtenMs);
  }

  return {
    /** Beginning of messages. */
    where,
    /** Folder of staged files. */
    staging,
    /** Folder for copies of data files. */
    copies,
    namespaces,
    catalog,
    nameOf,
    storageOf,
    session,
    load,
    loadAll,
    storageTime,
    filesOf,
    /** Forgets what was written into tables' folders. */
    keepUploads: () => uploads.clear(),
    removeUploads,
    refused,
    explain,

    async close(): Promise<void> {
      const last = opened;
      opened = null;
      const closing = await last?.catch(() => null);
      if (closing) {
        closing.close();
        await removeScratch();
      }
      lock?.release();
      lock = null;
      await catalog.close();
      await agent.close();
    },
  };
}

interface NamedDestination {
  readonly name: string;
  /** Beginning of messages. */
  readonly where: string;
}

/** Error for tables or a catalog that can't be used as configured. */
function refusal(
  { name, where }: NamedDestination,
  message: string,
  hint: string,
  cause?: unknown,
): FixConfigurationError {
  const problem = { path: `publish.${name}`, message, hint };
  return new FixConfigurationError("destination_refused", `${where}: ${message}. ${hint}`, [problem], {
    cause,
  });
}

/** Converts failures of the catalog, the object store and DuckDB into errors with a remedy; returns others unchanged. */
function explainIceberg(error: unknown, destination: NamedDestination): unknown {
  const { name, where } = destination;
  const message = messageOf(error);
  const again = `Try again; if it persists, run \`publish ${name} --full\`.`;
  const later = "Run again later; everything committed is kept.";
  if (isConflict(error)) {
    const text = `${where}: other programs kept changing its tables. Publish again later; everything committed is kept.`;
    return new StopRunError("destination_busy", text, { cause: error });
  }
  if (isMissingFile(error)) {
    const text = `${where}: files of a table are missing. Run \`publish ${name} --full\`.`;
    return new StopRunError("destination_failed", text, { cause: error });
  }
  if (error instanceof UntrustedAddressError) return refusal(destination, message, error.hint, error);
  if (error instanceof StorageError && [301, 307].includes(error.status)) {
    return refusal(destination, message, "Set s3_region to the region of the bucket.", error);
  }
  if (error instanceof CatalogError || error instanceof StorageError) {
    if ([401, 403].includes(error.status) && !error.isPassing) {
      return refusal(
        destination,
        `access is refused (${message})`,
        "Check the credentials and their privileges.",
        error,
      );
    }
    return error.isPassing
      ? new StopRunError("database_unreachable", `${where}: ${message}. ${later}`, { cause: error })
      : new StopRunError("destination_failed", `${where}: ${message}. ${again}`, { cause: error });
  }
  if (error instanceof UnreachableError) {
    const check = `Check the s3_ settings of publish.${name}, its catalog and the network, and run again; nothing committed is lost.`;
    return new StopRunError("database_unreachable", `${where}: ${message}. ${check}`, { cause: error });
  }
  if (
    error instanceof Error &&
    (message === "fetch failed" || error.name === "TimeoutError" || message === "terminated")
  ) {
    const reason = codeOf(error.cause) ?? "no response";
    const check = `Check publish.${name}.catalog and its network, and run again; nothing committed is lost.`;
    return new StopRunError("database_unreachable", `${where} can't be reached (${reason}). ${check}`, {
      cause: error,
    });
  }
  if (codeOf(error) === "ENOSPC" || /no space left|disk space|Out of Memory Error/iu.test(message)) {
    return new StopRunError(
      "destination_full",
      `${where}: no space or memory left in data_dir. Free some and publish again.`,
    );
  }
  // Only the kind of error is kept: DuckDB's messages quote values.
  const [, kind] = /^([A-Z][A-Za-z ]{2,40} Error)\b/.exec(message) ?? [];
  if (kind === undefined) return error;
  return new StopRunError("destination_failed", `${where}: DuckDB reported ${kind}. ${again}`);
}
