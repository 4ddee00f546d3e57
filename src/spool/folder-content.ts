import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { codeOf } from "../errors.ts";
import { parseCallName, type SpooledCall } from "./spool-places.ts";

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
