import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { codeOf } from "../errors.ts";
import { callIdOf, type SpooledCall } from "./spool-places.ts";

/** Paths of what is in a folder, sorted by name; a folder that isn't there is empty. */
export async function filesIn(folder: string): Promise<readonly string[]> {
  try {
    return (await readdir(folder)).toSorted().map((name) => join(folder, name));
  } catch (error) {
    // Another shard that starts at the same time removes empty folders too.
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}

/** The calls in a folder, oldest first. */
export async function callsIn(folder: string): Promise<SpooledCall[]> {
  const calls: SpooledCall[] = [];
  for (const path of await filesIn(folder)) {
    const callId = callIdOf(path);
    const size = callId === null ? null : ((await ifThere(stat(path)))?.size ?? null);
    if (callId !== null && size !== null) calls.push({ callId, path, bytes: size });
  }
  return calls;
}

/** The result of work on a file; null when the file isn't there. */
export async function ifThere<Result>(work: Promise<Result>): Promise<Result | null> {
  try {
    return await work;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}
