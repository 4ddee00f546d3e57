import { rm } from "node:fs/promises";
import { join } from "node:path";
import PQueue from "p-queue";
import { LimitReachedError } from "../../errors.ts";
import type { PublicationDb } from "../../load/publication/registration.ts";
import { copyRange, type Range, type RangeEnd } from "../../load/publication/whole-table.ts";
import type { Log } from "../../log.ts";
import type { Catalog, Destination, PublishedTable, StagedFiles } from "../../publish/destination.ts";

/** Destination with everything needed to publish to it. */
export interface Publication {
  readonly db: PublicationDb;
  readonly destination: Destination;
  readonly catalog: Catalog;
  /** Folder for temporary files; one per destination. */
  readonly folder: string;
  readonly log: Log;
  readonly signal?: AbortSignal;
}

/** Next step if another database with the same data no longer exists. */
export const AFTER_A_MOVE =
  "If that database was moved here (dump and restore, another server), run `person-etl migrate --accept-database`";

/** Message about a destination of another database with the same data. */
export function copiedText(name: string): string {
  return (
    `Destination ${name} belongs to another copy of this database. Nothing was changed there. ${AFTER_A_MOVE}. ` +
    `Otherwise configure another destination; \`publish ${name} --full\` would replace what that database published.`
  );
}

/** Error for a destination of another database with the same data. */
export function copied(name: string): LimitReachedError {
  return new LimitReachedError("publication_refused", copiedText(name));
}

/** Error for a destination with a different history than Postgres. */
export function refused(name: string): LimitReachedError {
  return new LimitReachedError(
    "publication_refused",
    `Destination ${name} doesn't contain the batch that was last published from this warehouse: one of them was restored from a backup, or ` +
      `another configuration publishes to it. Nothing was changed there. Run \`publish ${name} --full\` to publish everything again.`,
  );
}

/** Stages a whole table by key ranges, each read in its own short snapshot. Returns the number of rows. */
export async function stageTable(
  { db, destination, folder, signal }: Publication,
  stager: ReturnType<typeof createStager>,
  table: PublishedTable,
): Promise<number> {
  const format = destination.fileFormat;
  let after: RangeEnd = null;
  let rows = 0;
  for (let part = 0; ; part += 1) {
    signal?.throwIfAborted();
    const prefix = join(folder, `${table.name}-${part}`);
    const { end, ...copied }: Range = await db.snapshot((session) =>
      copyRange(session, table, { after, prefix, format }),
    );
    if (copied.lines > 0) await stager.add({ table, content: "rows", replaces: "all", part, ...copied });
    rows += copied.lines;
    if (end === null) return rows;
    after = end;
  }
}

/** Parts that may wait on disk, so that one slow part stalls neither reading nor staging. */
const MAX_WAITING_PARTS = 2;

/** Stages parts in the background, one at a time. */
export function createStager(stage: (staged: StagedFiles) => Promise<void>) {
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
    /** Queues a part; waits while the queue is full. Throws if an earlier part failed. Its files are removed once it is staged. */
    async add(staged: StagedFiles): Promise<void> {
      await queue.onSizeLessThan(MAX_WAITING_PARTS);
      throwFailure();
      void queue.add(() => run(staged));
    },
    /** Waits for all parts. Throws if one failed. */
    async finish(): Promise<void> {
      await queue.onIdle();
      throwFailure();
    },
    /** Discards waiting parts, and waits for the one in progress. */
    async abandon(): Promise<void> {
      queue.clear();
      await queue.onIdle();
    },
  };
}
