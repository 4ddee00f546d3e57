import { basename, dirname, join } from "node:path";

/** Whose answers a folder holds: two processes with one data_dir never write into the same one. */
export interface SpoolOwner {
  /** Tells one warehouse from another: configurations for several may share a data_dir. */
  readonly warehouse: string;
  readonly job: string;
  /** `I/N`; `0/1` without shards. */
  readonly shard: string;
}

/** One call's answer on disk, told by its name. */
export interface SpooledCall {
  readonly callId: string;
  readonly path: string;
  readonly bytes: number;
}

const CALL_NAME = /^\d{8}T\d{9}Z-(?<callId>[0-9a-f-]{36})\.call$/u;
const SHARD_NAME = /^(?<index>\d+)-of-(?<count>\d+)$/u;
const TEMPORARY = ".tmp";
/** Beside the folders of the shards: files that can't be believed. */
export const DAMAGED = "damaged";

/** Name of a call's file: sorts by time and says nothing about whom it is about. */
export function callFileName(callId: string, receivedAtMs: number): string {
  return `${new Date(receivedAtMs).toISOString().replaceAll(/[-:.]/gu, "")}-${callId}.call`;
}

/** The call that a file holds; null for any other file. */
export function callIdOf(path: string): string | null {
  return CALL_NAME.exec(basename(path))?.groups?.["callId"] ?? null;
}

/** Under what name a file is written before it is whole. */
export function temporaryName(path: string): string {
  return path + TEMPORARY;
}

/** Whether a file was left before it was whole. */
export function isTemporary(path: string): boolean {
  return path.endsWith(TEMPORARY);
}

/** The folder of all shards of a job. */
export function jobFolder(root: string, { warehouse, job }: Pick<SpoolOwner, "warehouse" | "job">): string {
  return join(root, warehouse, job);
}

/** The folder of one shard. */
export function shardFolder(root: string, owner: SpoolOwner): string {
  return join(jobFolder(root, owner), owner.shard.replace("/", "-of-"));
}

/** The shard that a folder is of, as `I/N`; null for any other folder. */
export function shardOf(folder: string): string | null {
  const { index, count } = SHARD_NAME.exec(basename(folder))?.groups ?? {};
  return index === undefined || count === undefined ? null : `${index}/${count}`;
}

/** Number of shards in `I/N`. */
export function shardCount(shard: string): string {
  return shard.slice(shard.indexOf("/") + 1);
}

/** Where a damaged file of a shard's folder is moved to. */
export function damagedPath(path: string): string {
  return join(dirname(dirname(path)), DAMAGED, basename(path));
}
