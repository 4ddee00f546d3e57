import { randomBytes } from "node:crypto";
import {
  type FileHandle,
  link,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rm,
  rmdir,
  stat,
  writeFile,
} from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { crashPoint } from "../crash-point.ts";
import { codeOf } from "../errors.ts";
import { syncFolder } from "../sync-folder.ts";

/** Owner of a folder; no two processes write to the same folder. */
export interface SpoolOwner {
  /** Name of the warehouse's folder: configurations for several warehouses may share a data_dir. */
  readonly warehouse: string;
  readonly job: string;
  /** `I/N`; `0/1` without shards. */
  readonly shard: string;
}

/** Answer of a call on disk, as parsed from its file name. */
export interface SpooledCall {
  readonly callId: string;
  readonly path: string;
  /** Size on disk. */
  readonly bytes: number;
  /** Loads that were started but neither completed nor reverted. */
  readonly tries: number;
  /** Index of the result that was being read when the last of them ended; null if it was another step, or is unknown. */
  readonly at: number | null;
}

const CALL_NAME =
  /^(?<stem>\d{8}T\d{9}Z-(?<callId>[0-9a-f-]{36}))(?:\.try(?<tries>\d+)(?:-at(?<at>\d+))?)?\.call$/u;
const SHARD_NAME = /^(?<index>\d+)-of-(?<count>\d+)$/u;
/** End of the name of a partially written file. */
export const TEMPORARY = ".tmp";
/** Folder next to those of the shards, for files that can't be loaded. */
export const QUARANTINE = "quarantine";

/** Returns the name of a call's file, which sorts by time and contains no personal data. */
export function callFileName(callId: string, receivedAtMs: number): string {
  return `${new Date(receivedAtMs).toISOString().replaceAll(/[-:.]/gu, "")}-${callId}.call`;
}

function parseCallName(path: string): Pick<SpooledCall, "callId" | "tries" | "at"> | null {
  const { callId, tries, at } = CALL_NAME.exec(basename(path))?.groups ?? {};
  if (callId === undefined) return null;
  return { callId, tries: Number(tries ?? 0), at: at === undefined ? null : Number(at) };
}

/** Returns the path of a call's file after `tries` loads, the last of which is at a result. */
export function pathOfTry(path: string, { tries, at }: Pick<SpooledCall, "tries" | "at">): string {
  const stem = CALL_NAME.exec(basename(path))?.groups?.["stem"] ?? basename(path);
  const mark = tries === 0 ? "" : `.try${tries}${at === null ? "" : `-at${at}`}`;
  return join(dirname(path), `${stem}${mark}.call`);
}

export function jobFolder(root: string, { warehouse, job }: Pick<SpoolOwner, "warehouse" | "job">): string {
  return join(root, warehouse, job);
}

export function shardFolder(root: string, owner: SpoolOwner): string {
  return join(jobFolder(root, owner), owner.shard.replace("/", "-of-"));
}

/** Returns the shard of a folder as `I/N`; null for any other folder. */
export function shardOf(folder: string): string | null {
  const { index, count } = SHARD_NAME.exec(basename(folder))?.groups ?? {};
  return index === undefined || count === undefined ? null : `${index}/${count}`;
}

/** Syncs a folder for concurrent callers, which share the next sync. */
export function createFolderSync(folder: string): () => Promise<void> {
  let current = Promise.resolve();
  let following: Promise<void> | null = null;

  async function syncAfterCurrent(): Promise<void> {
    await current.catch(() => {});
    following = null;
    current = syncFolder(folder);
    await current;
  }

  return async () => {
    following ??= syncAfterCurrent();
    await following;
  };
}

/** Creates a folder and its parents with mode 0700; they survive a power failure. */
export async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let made = folder; ; made = dirname(made)) {
    await syncFolder(dirname(made));
    if (made === first) return;
  }
}

/**
 * Writes a file atomically; once this resolves, it survives a power failure. Returns what `write` returns.
 * @param syncNames syncs the file's folder.
 */
export async function writeDurably<Result>(
  path: string,
  write: (file: FileHandle) => Promise<Result>,
  syncNames: () => Promise<void>,
): Promise<Result> {
  const temporary = path + TEMPORARY;
  crashPoint("before_spool_write");
  let result;
  try {
    const file = await open(temporary, "wx", 0o600);
    try {
      result = await write(file);
      crashPoint("after_spool_write");
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
    await syncNames();
  } catch (error) {
    // A file that may not survive must not be used.
    for (const name of [temporary, path]) await rm(name, { force: true }).catch(() => {});
    throw error;
  }
  crashPoint("after_spool_fsync");
  return result;
}

/** Returns the result of a file operation; null if the file doesn't exist. */
export async function ifThere<Result>(work: Promise<Result>): Promise<Result | null> {
  try {
    return await work;
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes(codeOf(error) ?? "")) return null;
    throw error;
  }
}

/** Lists the names in a folder, sorted; empty if the folder doesn't exist. */
export async function namesIn(folder: string): Promise<readonly string[]> {
  return ((await ifThere(readdir(folder))) ?? []).toSorted();
}

/** Lists the paths in a folder, sorted by name. */
export async function filesIn(folder: string): Promise<readonly string[]> {
  return (await namesIn(folder)).map((name) => join(folder, name));
}

/** Lists the calls in a folder, oldest first. */
export async function callsIn(folder: string): Promise<SpooledCall[]> {
  const calls: SpooledCall[] = [];
  for (const path of await filesIn(folder)) {
    const name = parseCallName(path);
    const status = name && (await ifThere(stat(path)));
    if (name && status) calls.push({ ...name, path, bytes: status.size });
  }
  return calls;
}

/** Removes all files of a folder; returns their number. */
export async function emptyFolder(folder: string): Promise<number> {
  const files = await filesIn(folder);
  for (const path of files) await rm(path, { force: true });
  return files.length;
}

const fileIn = (dataDir: string) => join(dataDir, "disk-id");

/** ID of the disk of a data_dir; null if it never had a spool. */
export async function readDiskId(dataDir: string): Promise<string | null> {
  return ifThere(readFile(fileIn(dataDir), "utf8"));
}

/** Like {@link readDiskId}, but makes the ID of a new folder. */
export async function makeDiskId(dataDir: string): Promise<string> {
  const known = await readDiskId(dataDir);
  if (known !== null) return known;
  const id = randomBytes(8).toString("hex");
  const temporary = `${fileIn(dataDir)}.${id}`;
  await writeFile(temporary, id, { flag: "wx", mode: 0o600 });
  try {
    // Unlike a rename, it doesn't replace the ID that another process made meanwhile.
    await link(temporary, fileIn(dataDir));
    return id;
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
    return makeDiskId(dataDir);
  } finally {
    await rm(temporary, { force: true });
  }
}

/** Moves everything that was received for one warehouse to the folders of another; returns the number of answers. */
export async function moveSpool(root: string, from: string, to: string): Promise<number> {
  let answers = 0;
  for (const job of await namesIn(join(root, from))) {
    for (const shard of await namesIn(join(root, from, job))) {
      const [source, target] = [join(root, from, job, shard), join(root, to, job, shard)];
      await makeFolder(target);
      for (const path of await filesIn(source)) {
        await ifThere(rename(path, join(target, basename(path))));
        if (parseCallName(path)) answers += 1;
      }
      await syncFolder(target);
      await rmdir(source).catch(() => {});
    }
  }
  return answers;
}

export interface SpoolContent extends SpoolOwner {
  readonly folder: string;
  /** Received answers that are not loaded yet, and their size on disk. */
  readonly calls: number;
  readonly callIds: readonly string[];
  readonly bytes: number;
}

/** Answers of a job that can't be loaded: damaged on disk, or failed to load three times. */
interface QuarantinedCalls extends Pick<SpoolOwner, "warehouse" | "job"> {
  readonly folder: string;
  readonly files: number;
}

interface SpoolSurvey {
  readonly contents: readonly SpoolContent[];
  readonly quarantined: readonly QuarantinedCalls[];
}

/** Lists all non-empty spools below a folder. */
export async function surveySpool(root: string): Promise<SpoolSurvey> {
  const contents: SpoolContent[] = [];
  const quarantined: QuarantinedCalls[] = [];
  for (const warehouse of await namesIn(root)) {
    for (const job of await namesIn(join(root, warehouse))) {
      for (const name of await namesIn(join(root, warehouse, job))) {
        const folder = join(root, warehouse, job, name);
        const shard = shardOf(name);
        if (shard !== null) {
          const calls = await callsIn(folder);
          const bytes = calls.reduce((sum, call) => sum + call.bytes, 0);
          const callIds = calls.map(({ callId }) => callId);
          const content = { warehouse, job, shard, folder, calls: calls.length, callIds, bytes };
          if (calls.length > 0) contents.push(content);
        } else if (name === QUARANTINE) {
          const files = (await namesIn(folder)).length;
          if (files > 0) quarantined.push({ warehouse, job, folder, files });
        }
      }
    }
  }
  return { contents, quarantined };
}
