import { createHash, randomUUID } from "node:crypto";
import { mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { RunRef } from "../warehouse.ts";
import type { Session } from "./session.ts";
import { dropTable, STAGING_LIFE_MS, STAGING_PREFIX, tablesNamed } from "./staging.ts";

/** What a group of calls is going to be loaded from. */
export interface ManifestContent {
  readonly run: RunRef;
  readonly callIds: readonly string[];
  /** Staging tables. */
  readonly tables: readonly string[];
}

/** A group of calls on its way into the warehouse: its files, and the names that belong to it alone. */
export interface Manifest {
  readonly id: string;
  /** A file of rows: personal data, so that only this user may read it. */
  file(name: string): string;
  /** Name of a staging table of this group. */
  table(purpose: string): string;
  /** Id of a load job; one that has failed can't be used again, so that each attempt has its own. */
  jobId(purpose: string, attempt: number): string;
  /** Writes down what is going to be loaded; on disk once it resolves, which must be before the load begins. */
  note(content: ManifestContent): Promise<void>;
  /** Removes the files, once the group is committed or given up. */
  end(): Promise<void>;
}

type Owner = Pick<RunRef, "job" | "shard">;

/** Begins the manifest of a new group. */
export async function openManifest(workFolder: string, owner: Owner): Promise<Manifest> {
  const id = randomUUID().replaceAll("-", "").slice(0, 20);
  const folder = join(ownerFolder(workFolder, owner), id);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return {
    id,
    file: (name) => join(folder, name),
    table: (purpose) => `${stagingPrefix(owner)}${purpose}_${id}`,
    jobId: (purpose, attempt) => `person_etl_load_${id}_${purpose}_${attempt}`,
    async note(content) {
      const path = join(folder, "manifest.json");
      const file = await open(`${path}.part`, "w", 0o600);
      try {
        await file.writeFile(JSON.stringify({ id, ...content }));
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(`${path}.part`, path);
      await syncFolder(folder);
    },
    end: () => rm(folder, { recursive: true, force: true }),
  };
}

/**
 * Clears away what groups of a job left behind that nobody goes on with: those of this shard, and of shards of another
 * division, which can't be running. Their answers are in the spool until they are committed, and are loaded from there.
 */
export async function clearManifests(session: Session, workFolder: string, owner: Owner): Promise<void> {
  const count = countOf(owner.shard);
  const ofJob = jobPrefix(owner.job);
  for (const table of await tablesNamed(session, ofJob)) {
    const [index, of] = table.slice(ofJob.length).split("_");
    if (of !== count || `${index}/${of}` === owner.shard) await dropTable(session, table);
  }
  await rm(ownerFolder(workFolder, owner), { recursive: true, force: true });
  await removeInputFiles(workFolder, (name) => name.startsWith(stagingPrefix(owner)));
}

/** Where rows of another database stand on their way into a table. */
export function inputFile(workFolder: string, table: string): string {
  return join(workFolder, `${table}${INPUT_FILE}`);
}

const INPUT_FILE = ".input.ndjson";

/** Removes such files, which a crash leaves behind; those of yesterday are nobody's any more. */
export async function removeInputFiles(
  workFolder: string,
  isLeft: (name: string) => boolean = () => false,
): Promise<void> {
  await mkdir(workFolder, { recursive: true, mode: 0o700 });
  for (const name of await readdir(workFolder)) {
    if (!name.endsWith(INPUT_FILE)) continue;
    const path = join(workFolder, name);
    if (isLeft(name) || Date.now() - (await stat(path)).mtimeMs > STAGING_LIFE_MS)
      await rm(path, { force: true });
  }
}

/** Name of a table for rows of another database that a run reads; left behind, it is cleared away with the groups. */
export function inputTable(owner: Owner): string {
  return `${stagingPrefix(owner)}input_${randomUUID().replaceAll("-", "").slice(0, 20)}`;
}

/**
 * Clears away what groups of any job left behind but for those of `held`, who may be at work.
 * @param options.beforeMs what was made on this disk since then is left alone: its owner needn't be among them yet.
 */
export async function clearLeftGroups(
  session: Session,
  workFolder: string,
  options: { readonly held: readonly Owner[]; readonly beforeMs: number },
): Promise<void> {
  const prefixes = options.held.map(stagingPrefix);
  for (const table of await tablesNamed(session, STAGING_PREFIX)) {
    const isOfGroup = GROUP_TABLE.test(table.slice(STAGING_PREFIX.length));
    if (isOfGroup && !prefixes.some((prefix) => table.startsWith(prefix))) await dropTable(session, table);
  }
  const own = new Set(options.held.map((owner) => ownerFolder(workFolder, owner)));
  for (const name of await readdir(workFolder).catch(() => [])) {
    if (!OWNER_FOLDER.test(name) && !name.startsWith(STAGING_PREFIX)) continue;
    const path = join(workFolder, name);
    const found = await stat(path).catch(() => null);
    if (found === null || own.has(path) || prefixes.some((prefix) => name.startsWith(prefix))) continue;
    // A file may be that of a plan under way, which holds no lock.
    const ageMs = options.beforeMs - found.mtimeMs;
    if (ageMs > (found.isDirectory() ? 0 : PLAN_MS)) await rm(path, { recursive: true, force: true });
  }
}

/** What {@link ownerFolder} makes of a job and a shard. */
const OWNER_FOLDER = / \d+ of \d+$/;

/** Longer than a plan takes to read an input of another database. */
const PLAN_MS = 3_600_000;

/** What follows {@link STAGING_PREFIX} in the name of a group's table: job, shard, purpose. */
const GROUP_TABLE = /^[0-9a-f]{10}_\d+_\d+_/;

function jobPrefix(job: string): string {
  return `${STAGING_PREFIX}${createHash("sha256").update(job).digest("hex").slice(0, 10)}_`;
}

function stagingPrefix({ job, shard }: Owner): string {
  return `${jobPrefix(job)}${shard.replace("/", "_")}_`;
}

function countOf(shard: string): string {
  return shard.slice(shard.indexOf("/") + 1);
}

function ownerFolder(workFolder: string, { job, shard }: Owner): string {
  return join(workFolder, `${encodeURIComponent(job)} ${shard.replace("/", " of ")}`);
}

/** Makes sure that the names in a folder survive a power cut, where the system can. */
async function syncFolder(folder: string): Promise<void> {
  if (process.platform === "win32") return;
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } catch {
    // Some file systems can't sync folders.
  } finally {
    await handle.close();
  }
}
