import { StopRunError } from "../../errors.ts";
import { isConflict, type RestCatalog } from "./catalog.ts";
import type { LoadedTable, Snapshot, StatisticsFile, TableMetadata, TableName } from "./specification.ts";
import { type ManifestList, readManifestList, readRemoved } from "./manifests.ts";
import { isMissingFile, placeOf, type Storage, type StoredObject } from "../../object-store.ts";
import {
  currentSnapshot,
  folderOf,
  identifierOf,
  isOwn,
  readReplaced,
  readSnapshot,
  type SnapshotFiles,
  unchanged,
} from "./tables.ts";

/**
 * Time for which readers can go on with a snapshot that is no longer the current one, and for which a file that no snapshot has may belong
 * to an unfinished commit of another program.
 */
const RETAINED_MS = 24 * 3_600_000;

/** Digits of a batch's number in the names of its files, so that they sort by it. */
const NUMBER_DIGITS = 12;

/** Prefix of the names of all files of one attempt to publish a batch. */
export function prefixOf(number: number, attempt: string): string {
  return `${String(number).padStart(NUMBER_DIGITS, "0")}-${attempt}`;
}

/** Number of the batch whose attempt wrote a file; null for files of others. */
function numberIn(address: string): number | null {
  const name = /\/(?:data|metadata)\/(\d{12})-[0-9a-z]+-[^/]+\.(?:parquet|avro)(?:\.part)?$/u.exec(
    address,
  )?.[1];
  return name === undefined ? null : Number(name);
}

interface CleaningOptions {
  readonly catalog: RestCatalog;
  readonly storageOf: (config: Readonly<Record<string, string>>) => Storage;
  /** Number of the last committed batch: files of unfinished attempts up to it will never be part of a table. */
  readonly committed: number;
  /** Time of this cleaning. */
  readonly nowMs: number;
  /** True if no former snapshot may remain, because rows of erased people are in them. */
  readonly purges: boolean;
  /** Counts what cleanings remove. */
  readonly removed: { snapshots: number; files: number };
}

/**
 * Expires former snapshots of a table, and deletes files in its folder that no remaining one has. Repeatable: what is left after a crash is
 * found by listing the folder.
 *
 * @returns Addresses of files that may belong to an unfinished commit, and are left for that reason.
 */
export async function cleanTable(options: CleaningOptions, table: TableName): Promise<readonly string[]> {
  const { catalog, storageOf, committed, nowMs, purges, removed } = options;
  const loaded = await catalog.loadTable(table);
  if (!loaded || !isOwn(table, loaded.metadata)) return [];
  const { metadata } = loaded;
  const storage = storageOf(loaded.config);
  const sinceMs = nowMs - RETAINED_MS;
  const { expired, kept } = divide(metadata, purges ? null : sinceMs);
  const former = kept.filter((snapshot) => snapshot !== currentSnapshot(metadata));
  const current = await readSnapshot(storage, currentSnapshot(metadata));
  refuseOutside(table, metadata, addressesOf(current));
  const used = placesOf(addressesOf(current));
  for (const snapshot of former) addPlaces(used, addressesOf(await readReplaced(storage, snapshot)));
  const unused = new Set<string>();
  for (const snapshot of expired) {
    const files = addressesOf(await readReplaced(storage, snapshot));
    if (purges) refuseOutside(table, metadata, files);
    addPlaces(unused, files);
  }
  const expiredIds = new Set(expired.map((snapshot) => snapshot["snapshot-id"]));
  const statistics = statisticsOf(metadata);
  // Sketches hold values of rows.
  const dropped = statistics.filter((entry) => purges || expiredIds.has(entry["snapshot-id"]));
  addPlaces(used, statistics.filter((entry) => !dropped.includes(entry)).map(pathOf));
  addPlaces(unused, dropped.map(pathOf));
  if (purges) refuseOutside(table, metadata, dropped.map(pathOf));
  const updates = [
    ...Object.keys(purges ? (metadata.refs ?? {}) : {})
      .filter((ref) => ref !== "main")
      .map((ref) => ({ action: "remove-snapshot-ref", "ref-name": ref })),
    ...dropped.map(({ action, "snapshot-id": id }) => ({ action, "snapshot-id": id })),
    // Some catalogs take one ID in each.
    ...[...expiredIds].map((id) => ({ action: "remove-snapshots", "snapshot-ids": [id] })),
  ];
  if (updates.length > 0)
    await catalog.commit([{ identifier: identifierOf(table), requirements: unchanged(metadata), updates }]);
  removed.snapshots += expired.length;
  const stored = await listFiles(storage, metadata);
  const listed = new Map(stored.map((file) => [placeOf(file.address), file]));
  refuseUnlisted(table, placesOf(addressesOf(current)), listed);
  // Some catalogs list only the current snapshot.
  if (purges) addPlaces(unused, await removedFiles(storage, stored, currentSnapshot(metadata)));
  else addPlaces(used, await recentFiles(storage, stored, sinceMs));
  const doomed: string[] = [];
  const waiting: string[] = [];
  for (const [place, { address, writtenMs }] of listed) {
    if (used.has(place) || WITHOUT_ROWS.test(address)) continue;
    const number = numberIn(address);
    // A later batch may be committed, or published again after the catalog was restored.
    const isOver = number === null ? writtenMs < sinceMs || unused.has(place) : number <= committed;
    (isOver ? doomed : waiting).push(address);
  }
  // Fails if the table has changed, or was an old one: a load may be answered by a replica.
  const mark = { action: "set-properties", updates: { [DELETED_MS]: `${nowMs}` } };
  if (doomed.length > 0)
    await catalog.commit([
      { identifier: identifierOf(table), requirements: unchanged(metadata), updates: [mark] },
    ]);
  for (const file of doomed) await storage.remove(file);
  removed.files += doomed.length;
  return waiting;
}

/** Divides snapshots into those that expire and those that are kept. `sinceMs` is null if only the current one is kept. */
function divide(metadata: TableMetadata, sinceMs: number | null) {
  const current = currentSnapshot(metadata);
  const { snapshots = [], refs = {} } = metadata;
  const named = new Set(Object.values(refs).map((ref) => ref["snapshot-id"]));
  const older = snapshots.filter((snapshot) => snapshot["timestamp-ms"] < (sinceMs ?? 0));
  // It was still current at that time.
  const lastOfOlder = older.toSorted((a, b) => b["timestamp-ms"] - a["timestamp-ms"])[0];
  const isKept = (snapshot: Snapshot) =>
    snapshot === current ||
    (sinceMs !== null &&
      (!older.includes(snapshot) || snapshot === lastOfOlder || named.has(snapshot["snapshot-id"])));
  return {
    expired: snapshots.filter((snapshot) => !isKept(snapshot)),
    kept: snapshots.filter((snapshot) => isKept(snapshot)),
  };
}

/** Statistics of other engines, with the update that removes them. */
function statisticsOf(metadata: TableMetadata) {
  const { statistics, "partition-statistics": partitionStatistics } = metadata;
  return [
    ...(statistics ?? []).map((entry) => ({ ...entry, action: "remove-statistics" })),
    ...(partitionStatistics ?? []).map((entry) => ({ ...entry, action: "remove-partition-statistics" })),
  ];
}

const pathOf = (entry: StatisticsFile) => entry["statistics-path"];

/** Property of a table with the time of the last deletion of files, in milliseconds. */
const DELETED_MS = "person-etl.deleted-ms";

/** Refuses a table with files outside its folder: a cleaning, which lists the folder, would leave them after an erasure. */
export function refuseOutside(table: TableName, metadata: TableMetadata, addresses: readonly string[]): void {
  const folder = `${placeOf(folderOf(metadata))}/`;
  const outside = addresses.find((address) => !placeOf(address).startsWith(folder));
  if (outside === undefined) return;
  throw new StopRunError(
    "destination_refused",
    `Another program put a file of the table ${table.name} outside its folder: ${outside}. Drop the table and its files, and publish with \`--full\`.`,
  );
}

/** Refuses to delete anything in a folder whose listing doesn't have the files of the current snapshot. */
function refuseUnlisted(
  table: TableName,
  files: ReadonlySet<string>,
  listed: ReadonlyMap<string, StoredObject>,
): void {
  for (const file of files) {
    if (listed.has(file)) continue;
    throw new StopRunError(
      "destination_failed",
      `The folder of the table ${table.name} doesn't list the table's own file ${file}, so no file of it was deleted. If the file is missing, publish with \`--full\`.`,
    );
  }
}

/** Files that were in a former snapshot, by manifests and lists in the table's folder. */
async function removedFiles(
  storage: Storage,
  stored: readonly StoredObject[],
  current: Snapshot | null,
): Promise<readonly string[]> {
  const files: string[] = [];
  const lists = new Map<string, ManifestList & { readonly address: string }>();
  for (const { address } of stored.filter(isManifest)) {
    files.push(...((await readIfWhole(storage, address, readRemoved)) ?? []));
    const list = await readIfWhole(storage, address, readManifestList);
    if (list) lists.set(list.snapshotId, { ...list, address });
  }
  // Those of snapshots between two batches, too, of which another program may have committed several.
  let at = lists.get(`${current?.["snapshot-id"]}`)?.parentId;
  for (let list = lists.get(at ?? ""); list; list = lists.get(at ?? "")) {
    files.push(list.address, ...list.manifests.map((manifest) => manifest.manifest_path));
    lists.delete(list.snapshotId);
    at = list.parentId;
  }
  return files;
}

/** True for a manifest or a list of manifests. */
const isManifest = ({ address }: StoredObject) => address.endsWith(".avro");

/** Reads a manifest that no snapshot needs; null if it is missing, incomplete or in another form. */
async function readIfWhole<Result>(
  storage: Storage,
  address: string,
  read: (content: Buffer) => Result,
): Promise<Result | null> {
  const content = await storage.read(address).catch((error: unknown) => {
    if (isMissingFile(error)) return null;
    throw error;
  });
  try {
    return content && read(content);
  } catch {
    return null;
  }
}

/** Files of the snapshots that were current at some time since, by manifests in the table's folder. */
async function recentFiles(
  storage: Storage,
  stored: readonly StoredObject[],
  sinceMs: number,
): Promise<readonly string[]> {
  const files: string[] = [];
  const manifests = stored.filter(isManifest);
  for (const { address, writtenMs } of manifests) {
    // What a snapshot removed was in the one before it.
    if (writtenMs >= sinceMs)
      files.push(address, ...((await readIfWhole(storage, address, readRemoved)) ?? []));
  }
  // The last snapshot before that time was still current at it.
  const older = manifests.filter(({ writtenMs }) => writtenMs < sinceMs);
  for (const { address } of older.toSorted((a, b) => b.writtenMs - a.writtenMs)) {
    const listed = await readIfWhole(storage, address, readManifestList);
    if (!listed) continue;
    files.push(address, ...listed.manifests.map((manifest) => manifest.manifest_path));
    break;
  }
  return files;
}

function addressesOf({ entries, manifests }: SnapshotFiles): readonly string[] {
  return [...manifests, ...entries.map(({ data_file: file }) => file.file_path)];
}

const placesOf = (addresses: readonly string[]) => new Set(addresses.map(placeOf));

function addPlaces(to: Set<string>, addresses: readonly string[]): void {
  for (const address of addresses) to.add(placeOf(address));
}

/** Metadata that the catalog writes, checksums, and files that show the time. */
const WITHOUT_ROWS = /\.metadata\.json(?:\.gz)?$|\/version-hint\.text$|\.crc$|\.clock$/u;

const listFiles = (storage: Storage, metadata: TableMetadata) => storage.list(folderOf(metadata));

/** A table with its metadata. */
export interface NamedTable extends LoadedTable {
  readonly table: TableName;
}

/** Refuses tables of which one has its files in the folder of another, where a cleaning of one would delete files of the other. */
export function refuseShared(tables: readonly NamedTable[]): void {
  const folders = tables
    .map(({ table, metadata }) => ({ table, folder: `${placeOf(folderOf(metadata))}/` }))
    .toSorted((a, b) => (a.folder < b.folder ? -1 : 1));
  for (const [index, { table, folder }] of folders.entries()) {
    const next = folders[index + 1];
    if (!next?.folder.startsWith(folder)) continue;
    throw new StopRunError(
      "destination_refused",
      `The tables ${table.namespace}.${table.name} and ${next.table.namespace}.${next.table.name} share the folder ${folder}, so no file in it can be deleted. Drop one of them.`,
    );
  }
}

/** Deletes all files of a table that hold rows, which the catalog would leave, and drops it. */
export async function dropTable(
  { catalog, storageOf }: Pick<CleaningOptions, "catalog" | "storageOf">,
  { table, metadata, config }: NamedTable,
): Promise<void> {
  const storage = storageOf(config);
  const removeFiles = async () => {
    for (const { address } of await listFiles(storage, metadata)) {
      if (!WITHOUT_ROWS.test(address)) await storage.remove(address);
    }
  };
  // Files first: after a crash, they are found by the table.
  await removeFiles();
  await catalog.dropTable(table);
  // Another process may have written some until then.
  await removeFiles();
}

/** Cleans tables, again if somebody changes one meanwhile. Returns the addresses that {@link cleanTable} left. */
export async function cleanTables(
  options: CleaningOptions,
  tables: readonly TableName[],
): Promise<readonly string[]> {
  const waiting: string[] = [];
  for (const table of tables) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        waiting.push(...(await cleanTable(options, table)));
        break;
      } catch (error) {
        if (!isConflict(error) || attempt === MOST_ATTEMPTS) throw error;
      }
    }
  }
  return waiting;
}

const MOST_ATTEMPTS = 5;
