import { rm } from "node:fs/promises";
import { join } from "node:path";
import PQueue from "p-queue";
import { copyRange, type Range, type RangeEnd } from "../../load/publication/whole-table.ts";
import type { FileFormat, PublishedTable, StagedFiles } from "../../publish/destination.ts";
import type { Publication } from "./publication.ts";

/** Uncompressed bytes per part, by form: few loads for BigQuery, small ones for DuckDB. */
const PART_BYTES: Readonly<Record<FileFormat, number>> = { json: 512 * 1024 ** 2, text: 64 * 1024 ** 2 };

/** Parts that may wait on disk, so that neither reading nor staging waits for a single slow one. */
const MOST_WAITING = 4;

/** Stages parts in the background, one at a time. */
export interface Stager {
  /** Adds a part, once few are waiting. Throws if an earlier one failed. Removes the files afterwards. */
  add(staged: StagedFiles): Promise<void>;
  /** Waits for all parts; throws if one failed. */
  finish(): Promise<void>;
  /** Drops the waiting parts, and waits for the one under way. */
  abandon(): Promise<void>;
}

/** Creates a stager. */
export function createStager(stage: (staged: StagedFiles) => Promise<void>): Stager {
  const queue = new PQueue({ concurrency: 1 });
  let failure: { readonly error: unknown } | null = null;
  const run = async (staged: StagedFiles) => {
    if (failure) return;
    try {
      await stage(staged);
      await Promise.all(staged.files.map((path) => rm(path)));
    } catch (error) {
      failure = { error };
    }
  };
  const throwFailure = () => {
    if (failure) throw failure.error;
  };
  return {
    async add(staged) {
      await queue.onSizeLessThan(MOST_WAITING);
      throwFailure();
      void queue.add(() => run(staged));
    },
    async finish() {
      await queue.onIdle();
      throwFailure();
    },
    async abandon() {
      queue.clear();
      await queue.onIdle();
    },
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
