import { rm } from "node:fs/promises";
import { join } from "node:path";
import { copyRange, type Range, type RangeEnd } from "../../load/publication/whole-table.ts";
import type { BatchRef, PublishedTable } from "../../publish/destination.ts";
import type { Publication } from "./publication.ts";

/** Uncompressed bytes per part: large enough for few loads, small enough for the disk. */
const PART_BYTES = 2 * 1024 * 1024 * 1024;

/** Stages a whole table by key ranges, each read in its own short snapshot. Returns the number of rows. */
export async function stageTable(
  { db, destination, folder, signal }: Publication,
  batch: BatchRef,
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
    } while (after !== null && bytes < PART_BYTES);
    if (lines > 0)
      await destination.stage(batch, { table, content: "rows", part, files, lines, longestLineBytes });
    await Promise.all(files.map((path) => rm(path)));
    rows += lines;
    if (after === null) return rows;
  }
}
