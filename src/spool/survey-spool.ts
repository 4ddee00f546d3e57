import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { codeOf } from "../errors.ts";
import { callsIn } from "./folder-content.ts";
import { DAMAGED, shardOf, type SpoolOwner } from "./spool-places.ts";

/** What stands in the spool of one shard of a job. */
export interface SpoolContent extends SpoolOwner {
  readonly folder: string;
  /** Received answers that are not loaded yet, and their size on disk. */
  readonly calls: number;
  readonly callIds: readonly string[];
  readonly bytes: number;
}

/** Files that could not be believed and were moved aside. */
export interface DamagedCalls extends Pick<SpoolOwner, "warehouse" | "job"> {
  readonly folder: string;
  readonly files: number;
}

/** All that stands in the spools of a data_dir. */
export interface SpoolSurvey {
  readonly contents: readonly SpoolContent[];
  readonly damaged: readonly DamagedCalls[];
}

async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return (await readdir(folder)).toSorted();
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes(codeOf(error) ?? "")) return [];
    throw error;
  }
}

/** Looks at every spool below a folder; changes nothing, and what is empty is left out. */
export async function surveySpool(root: string): Promise<SpoolSurvey> {
  const contents: SpoolContent[] = [];
  const damaged: DamagedCalls[] = [];
  for (const warehouse of await namesIn(root)) {
    for (const job of await namesIn(join(root, warehouse))) {
      for (const name of await namesIn(join(root, warehouse, job))) {
        const folder = join(root, warehouse, job, name);
        const shard = shardOf(name);
        if (shard !== null) {
          const calls = await callsIn(folder);
          const bytes = calls.reduce((sum, call) => sum + call.bytes, 0);
          if (calls.length > 0) {
            const callIds = calls.map(({ callId }) => callId);
            contents.push({ warehouse, job, shard, folder, calls: calls.length, callIds, bytes });
          }
        } else if (name === DAMAGED) {
          const files = (await namesIn(folder)).length;
          if (files > 0) damaged.push({ warehouse, job, folder, files });
        }
      }
    }
  }
  return { contents, damaged };
}
