import { mkdtemp, readdir, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inject, onTestFinished } from "vitest";
import { catalogOf } from "../../src/publish/destination.ts";
import { openDuckDb } from "../../src/publish/duckdb/session.ts";
import { openIcebergDestination } from "../../src/publish/iceberg/destination.ts";
import type { TableMetadata } from "../../src/publish/iceberg/specification.ts";
import { openStorage, openStorageAgent } from "../../src/object-store.ts";
import { currentSnapshot, readSnapshot } from "../../src/publish/iceberg/tables.ts";
import type { IcebergTarget } from "../../src/publish/iceberg/workspace.ts";
import { startRestCatalog, type StoredMetadata } from "../support/iceberg/rest-catalog.ts";
import { batchAfter, publishRows, stageAll, type TableRows } from "./staged-files.ts";

export const AT = "2026-11-21T04:00:00.000001+00:00";
export const people = catalogOf(["person", "person_email"]);
export const DAY_MS = 24 * 3_600_000;

export const person = (pid: string, fullName: string) => ({
  service_pid: pid,
  full_name: fullName,
  _record_synced_at: AT,
  _synced_at: AT,
  _run_id: "r1",
});
/** A change of people: new names by PID, null to delete. */
export const change = (people: Readonly<Record<string, string | null>>): TableRows => ({
  table: "person",
  keys: Object.keys(people).map((pid) => ({ service_pid: pid })),
  rows: Object.entries(people).flatMap(([pid, name]) => (name === null ? [] : [person(pid, name)])),
});

/** Opens tables in a folder of this machine, behind a catalog that fails on demand. `spelling` begins the addresses of the catalog; Java writes one slash. */
export async function openIcebergFolder(spelling = "file:") {
  const folder = await mkdtemp(join(inject("runFolder"), "iceberg-files-"));
  const lake = join(folder, "lake");
  const catalog = await startRestCatalog(`${spelling}${lake}`);
  const target: IcebergTarget = {
    name: "lake",
    catalog: catalog.url,
    warehouse: null,
    token: null,
    credential: null,
    tokenUrl: null,
    scope: "catalog",
    localFolder: lake,
    s3Endpoint: null,
    s3Region: null,
    accessKeyId: null,
    secretAccessKey: null,
    namespace: "data",
    opsNamespace: "ops",
    folder: join(folder, "work"),
  };
  const destination = openIcebergDestination(target);
  onTestFinished(() => destination.close());
  await destination.migrate(people);
  const metadata = (table = "person"): StoredMetadata => {
    const found = catalog.tables.get(`data.${table}`);
    if (!found) throw new Error(`no table ${table}`);
    return found;
  };
  const agent = openStorageAgent();
  onTestFinished(() => agent.close());
  const storage = openStorage(target, {}, agent);
  return {
    catalog,
    target,
    destination,
    storage,
    /** Opens the destination of another host. */
    openRival: () => {
      const rival = openIcebergDestination({ ...target, folder: join(folder, "rival") });
      onTestFinished(() => rival.close());
      return rival;
    },
    metadata,
    publish: async (...changed: readonly TableRows[]) =>
      publishRows(destination, people, batchAfter(await destination.position()), changed),
    erase: async (pid: string) => {
      const batch = batchAfter(await destination.position());
      const changes = await stageAll(destination, people, batch, [change({ [pid]: null })]);
      return destination.commit({ ...batch, changes, erases: true });
    },
    /** Paths of all files with rows or their bounds. */
    files: async (): Promise<readonly string[]> => {
      const entries = await readdir(lake, { recursive: true, withFileTypes: true });
      return entries
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name))
        .toSorted();
    },
    /** Names of people in the current snapshot. */
    names: async (): Promise<readonly string[]> => {
      const own = metadata() as unknown as TableMetadata; // of the same specification
      const { entries } = await readSnapshot(storage, currentSnapshot(own));
      return namesIn(
        folder,
        entries.map(({ data_file: file }) => new URL(file.file_path).pathname),
      );
    },
    /** Names of people in all files. */
    allNames: async (): Promise<readonly string[]> => {
      const stored = await storage.list(metadata().location);
      const paths = stored.map(({ address }) => new URL(address).pathname);
      return namesIn(
        folder,
        paths.filter((path) => path.endsWith(".parquet")),
      );
    },
    /** Writes a file of another program into the folder of `person`. */
    addForeign: async (name: string, ageMs: number) => {
      const path = join(new URL(metadata().location).pathname, name);
      await writeFile(path, "x");
      const written = new Date(Date.now() - ageMs);
      await utimes(path, written, written);
      return path;
    },
  };
}

export async function age(path: string, ms: number): Promise<void> {
  const { mtimeMs } = await stat(path);
  await utimes(path, new Date(mtimeMs - ms), new Date(mtimeMs - ms));
}

async function namesIn(folder: string, paths: readonly string[]): Promise<readonly string[]> {
  const duckdb = await openDuckDb(join(folder, "reader.duckdb"), join(folder, "reader.tmp"));
  const names: string[] = [];
  for (const path of paths) {
    const rows = await duckdb.rows(`SELECT full_name FROM read_parquet('${path}')`);
    names.push(...rows.map((row) => String(row["full_name"])));
  }
  duckdb.close();
  return names.toSorted();
}
