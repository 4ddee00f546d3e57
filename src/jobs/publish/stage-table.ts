import { rm } from "node:fs/promises";
import { join } from "node:path";
import { copyRange, type Range, type RangeEnd } from "../../load/publication/whole-table.ts";
import type { FileFormat, PublishedTable, StagedFiles } from "../../publish/destination.ts";
import type { Publication } from "./publication.ts";

/** Uncompressed bytes per part, by form: few loads for BigQuery; for DuckDB, which loads one part while the next is read, little on disk. */
const PART_BYTES: Readonly<Record<FileFormat, number>> = {
  json: 2 * 1024 ** 3,
  text: 256 * 1024 ** 2,
};

/** Stages files in the background, one call at a time. */
export interface Stager {
  /** Waits for the call before, and begins this one. Removes the files afterwards. */
  add(staged: StagedFiles): Promise<void>;
  /** Waits for the last call. */
  finish(): Promise<void>;
}

/** Creates a stager. */
export function createStager(stage: (staged: StagedFiles) => Promise<void>): Stager {
  let last = Promise.resolve();
  const run = async (staged: StagedFiles) => {
    await stage(staged);
    await Promise.all(staged.files.map((path) => rm(path)));
  };
  return {
    async add(staged) {
      await last;
      last = run(staged);
      // A failure surfaces at the next call.
      last.catch(() => {});
    },
    finish: () => last,
  };
}

/** Stages a whole table by key ranges, each read in its own short snapshot. Returns the number of rows. */
export async function stageTable(
  { db, destination, folder, signal }: Publication,
  stager: Stager,
  table: PublishedTable,
): Promise<number> {
  let after: RangeEnd = null;
  let rows = 0;
  for (let part = 0; ; part += 1) {
    const files: string[] = [];
    let [bytes, lines, longestLineBytes] = [0, 0, 0];
    do {
      signal?.throwIfAborted();
      const options = {
        after,
        prefix: join(folder, `${table.name}-${part}-${files.length}`),
        format: destination.fileFormat,
      };
      const range: Range = await db.snapshot((session) => copyRange(session, db.names, table, options));
      files.push(...range.files);
      bytes += range.bytes;
      lines += range.lines;
      longestLineBytes = Math.max(longestLineBytes, range.longestLineBytes);
      after = range.end;
    } while (after !== null && bytes < PART_BYTES[destination.fileFormat]);
    if (lines > 0) {
      await stager.add({ table, content: "rows", replaces: "all", part, files, lines, longestLineBytes });
    }
    rows += lines;
    if (after === null) return rows;
  }
}
