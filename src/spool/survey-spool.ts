import { join } from "node:path";
import { callsIn, namesIn } from "./folder-content.ts";
import { QUARANTINE, shardOf, type SpoolOwner } from "./spool-places.ts";

/** Answers in the spool of one shard of a job. */
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

/** Content of all spools of a data_dir. */
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
