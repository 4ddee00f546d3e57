import { rm } from "node:fs/promises";
import { join } from "node:path";
import PQueue from "p-queue";
import { copyRange, type Range, type RangeEnd } from "../../load/publication/whole-table.ts";
import type { PublishedTable, StagedFiles } from "../../publish/destination.ts";
import type { Publication } from "./publication.ts";

/** Parts that may wait on disk, so that one slow part stalls neither reading nor staging. */
const MAX_WAITING_PARTS = 2;

/** Stages parts in the background, one at a time. */
interface Stager {
  /** Queues a part; waits while the queue is full. Throws if an earlier part failed. Its files are removed once it is staged. */
  add(staged: StagedFiles): Promise<void>;
  /** Waits for all parts. Throws if one failed. */
  finish(): Promise<void>;
  /** Discards waiting parts, and waits for the one in progress. */
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
      await queue.onSizeLessThan(MAX_WAITING_PARTS);
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
  const format = destination.fileFormat;
  let after: RangeEnd = null;
  let rows = 0;
  for (let part = 0; ; part += 1) {
    signal?.throwIfAborted();
    const prefix = join(folder, `${table.name}-${part}`);
    const { end, ...copied }: Range = await db.snapshot((session) =>
      copyRange(session, db.names, table, { after, prefix, format }),
    );
    if (copied.lines > 0) await stager.add({ table, content: "rows", replaces: "all", part, ...copied });
    rows += copied.lines;
    if (end === null) return rows;
    after = end;
  }
}
