import { basename, dirname, join } from "node:path";

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
const TEMPORARY = ".tmp";
/** Folder next to those of the shards, for files that can't be loaded. */
export const QUARANTINE = "quarantine";

/** Returns the name of a call's file, which sorts by time and contains no personal data. */
export function callFileName(callId: string, receivedAtMs: number): string {
  return `${new Date(receivedAtMs).toISOString().replaceAll(/[-:.]/gu, "")}-${callId}.call`;
}

/** Parses the name of a call's file; null for any other file. */
export function parseCallName(path: string): Pick<SpooledCall, "callId" | "tries" | "at"> | null {
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

/** Returns the temporary name of a file that is being written. */
export function temporaryName(path: string): string {
  return path + TEMPORARY;
}

/** True for a partially written file. */
export function isTemporary(path: string): boolean {
  return path.endsWith(TEMPORARY);
}

/** Returns the folder of all shards of a job. */
export function jobFolder(root: string, { warehouse, job }: Pick<SpoolOwner, "warehouse" | "job">): string {
  return join(root, warehouse, job);
}

/** Returns the folder of one shard. */
export function shardFolder(root: string, owner: SpoolOwner): string {
  return join(jobFolder(root, owner), owner.shard.replace("/", "-of-"));
}

/** Returns the shard of a folder as `I/N`; null for any other folder. */
export function shardOf(folder: string): string | null {
  const { index, count } = SHARD_NAME.exec(basename(folder))?.groups ?? {};
  return index === undefined || count === undefined ? null : `${index}/${count}`;
}

/** Number of shards in `I/N`. */
export function shardCount(shard: string): string {
  return shard.slice(shard.indexOf("/") + 1);
}

/** Returns the quarantine path of a file. */
export function quarantinePath(path: string): string {
  return join(dirname(dirname(path)), QUARANTINE, basename(path));
}
