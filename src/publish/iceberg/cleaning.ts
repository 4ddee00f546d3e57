import {
  isConflict,
  isMissing,
  type RestCatalog,
  type Snapshot,
  type TableMetadata,
  type TableName,
} from "./catalog.ts";
import { readRemoved } from "./manifests.ts";
import type { Storage, StoredObject } from "./storage.ts";
import {
  currentSnapshot,
  identifierOf,
  MANIFEST,
  OWN_PROPERTY,
  readReplaced,
  readSnapshot,
  type SnapshotFiles,
  unchanged,
} from "./tables.ts";

/** Time for which readers can go on with a snapshot that is no longer the current one. */
const RETAINED_MS = 24 * 3_600_000;

/** Digits of a batch's number in the names of its files, so that they sort by it. */
const NUMBER_DIGITS = 12;

/** Prefix of the names of all files of one attempt to publish a batch. */
export function prefixOf(number: number, attempt: string): string {
  return `${String(number).padStart(NUMBER_DIGITS, "0")}-${attempt}`;
}

/** Number of the batch whose attempt wrote a file; null for files of others. */
function numberIn(address: string): number | null {
  const name = /\/(?:data|metadata)\/(\d{12})-[0-9a-z]+-[^/]+\.(?:parquet|avro)$/u.exec(address)?.[1];
  return name === undefined ? null : Number(name);
}

export interface CleaningOptions {
  readonly catalog: RestCatalog;
  readonly storageOf: (config: Readonly<Record<string, string>>) => Storage;
  /** Number of the last committed batch: files of unfinished attempts up to it will never be part of a table. */
  readonly committed: number;
  /** Time of this cleaning. */
  readonly nowMs: number;
  /** True if no former snapshot may remain, because rows of erased people are in them. */
  readonly purges: boolean;
}

/**
 * Expires former snapshots of a table and deletes the files that no remaining one has. Repeatable: what is left after a crash is found
 * by listing the table's folder.
 */
export async function cleanTable(options: CleaningOptions, table: TableName): Promise<void> {
  const { catalog, storageOf, committed, nowMs, purges } = options;
  const loaded = await catalog.loadTable(table);
  if (!loaded || loaded.metadata.properties?.[OWN_PROPERTY] === undefined) return;
  const { metadata, config } = loaded;
  const storage = storageOf(config);
  const current = currentSnapshot(metadata);
  const { snapshots = [], refs = {} } = metadata;
  const branches = Object.keys(refs).filter((ref) => ref !== "main");
  const named = new Set(purges ? [] : branches.map((branch) => refs[branch]?.["snapshot-id"]));
  const sinceMs = purges ? Number.POSITIVE_INFINITY : nowMs - RETAINED_MS;
  const isExpired = (snapshot: Snapshot) =>
    snapshot !== current && snapshot["timestamp-ms"] < sinceMs && !named.has(snapshot["snapshot-id"]);
  const expired = snapshots.filter(isExpired);
  const unused = new Set<string>();
  // Files of others, who name them in their own way, are known only by the snapshots that have them.
  for (const snapshot of expired)
    for (const file of filesOf(await readReplaced(storage, snapshot))) unused.add(file);
  const used = new Set<string>();
  for (const snapshot of snapshots) {
    if (!isExpired(snapshot))
      for (const file of filesOf(await readSnapshot(storage, snapshot))) used.add(file);
  }
  const doomedBranches = purges ? branches : [];
  if (expired.length + doomedBranches.length > 0) {
    await catalog.commit([
      {
        identifier: identifierOf(table),
        requirements: unchanged(metadata),
        updates: [
          ...doomedBranches.map((ref) => ({ action: "remove-snapshot-ref", "ref-name": ref })),
          { action: "remove-snapshots", "snapshot-ids": expired.map((snapshot) => snapshot["snapshot-id"]) },
        ],
      },
    ]);
  }
  // Some catalogs list only the current snapshot, and no snapshot has the files of attempts that ended before their commit.
  const stored = await listFiles(storage, metadata);
  const own = stored.filter(({ address }) => (numberIn(address) ?? Infinity) <= committed);
  for (const { address } of own) unused.add(address);
  if (purges) {
    // Compactions by others leave files, too.
    for (const { address } of stored)
      if (numberIn(address) === null && !METADATA.test(address)) unused.add(address);
  } else {
    for (const file of await recentFiles(storage, own, sinceMs)) used.add(file);
  }
  for (const file of unused) if (!used.has(file)) await storage.remove(file);
}

/** Files of the snapshots that were current at some time since, by the manifests of this program. */
async function recentFiles(
  storage: Storage,
  own: readonly StoredObject[],
  sinceMs: number,
): Promise<ReadonlySet<string>> {
  const metadata = own.filter(({ address }) => address.endsWith(".avro"));
  const recent = new Set(
    metadata.filter(({ writtenMs }) => writtenMs >= sinceMs).map(({ address }) => address),
  );
  // What a snapshot removed was in the one before it.
  const manifests = [...recent].filter((address) => address.endsWith(MANIFEST));
  for (const manifest of manifests) {
    for (const file of readRemoved(await storage.read(manifest))) recent.add(file);
  }
  // The last snapshot before that time was still current at it.
  const older = metadata.filter(({ address }) => !recent.has(address));
  const last = Math.max(...older.map(({ address }) => numberIn(address) ?? 0));
  for (const { address } of older) if (numberIn(address) === last) recent.add(address);
  return recent;
}

function filesOf({ entries, manifests }: SnapshotFiles): readonly string[] {
  return [...manifests, ...entries.map(({ data_file: file }) => file.file_path)];
}

/** Metadata that the catalog writes, without values of rows. */
const METADATA = /\.metadata\.json(?:\.gz)?$|\/version-hint\.text$/u;

const listFiles = async (storage: Storage, { location }: TableMetadata) => {
  const folder = location.replace(/\/+$/u, "");
  return [...(await storage.list(`${folder}/data`)), ...(await storage.list(`${folder}/metadata`))];
};

/** Deletes all files of a table that hold rows, which the catalog would leave, and drops it. */
export async function dropTable(
  { catalog, storageOf }: Pick<CleaningOptions, "catalog" | "storageOf">,
  table: TableName,
): Promise<void> {
  const loaded = await catalog.loadTable(table);
  if (!loaded || loaded.metadata.properties?.[OWN_PROPERTY] === undefined) return;
  const storage = storageOf(loaded.config);
  // Files first: after a crash, they are found by the table.
  for (const { address } of await listFiles(storage, loaded.metadata)) {
    if (!METADATA.test(address)) await storage.remove(address);
  }
  try {
    await catalog.dropTable(table);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

/** Cleans tables, again if somebody changes one meanwhile. */
export async function cleanTables(options: CleaningOptions, tables: readonly TableName[]): Promise<void> {
  for (const table of tables) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        await cleanTable(options, table);
        break;
      } catch (error) {
        if (!isConflict(error) || attempt === MOST_ATTEMPTS) throw error;
      }
    }
  }
}

const MOST_ATTEMPTS = 5;
