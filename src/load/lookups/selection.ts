import type { Db } from "../db/db.ts";
import { tableText } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { readErasures } from "../erasure/key.ts";
import { erasedSql } from "../erasure/naming.ts";
import { countInDoubt, touchTables } from "../ledger/ledger.ts";
import type { RunRef } from "../runs/run-ref.ts";
import { countOpen, markSent, type OpenClaims, readClaims, readFirstDue, releaseClaims } from "./claims.ts";
import type { LookupCounts } from "./counts.ts";
import type { LookupRecord, LookupSpec } from "./lookup.ts";
import { readInput } from "./reading.ts";
import type { ReadingContext } from "./see-input.ts";

/** Runs work, with retries. */
export type Retry = <Result>(work: () => Promise<Result>) => Promise<Result>;

/** Records that a run claimed. */
export interface LookupSelection {
  readonly counts: LookupCounts;
  /** Warehouse rows written by the reading. */
  readonly rowsWritten: number;
  /**
   * Pages of claimed records, ordered by content.
   * @param within runs the read of each page, with retries.
   */
  records(within?: Retry): AsyncIterable<readonly LookupRecord[]>;
  /** Counts the claims without an answer. */
  countOpen(): Promise<OpenClaims>;
  /** Marks records as sent although no outcome followed. */
  markSent(records: readonly LookupRecord[]): Promise<void>;
  /** Releases the claims that are left. Idempotent. */
  close(): Promise<void>;
}

/** Records per page. */
const PAGE_SIZE = 2000;

/** Context of a reading in a transaction. */
export async function contextOf(
  db: Db,
  session: Session,
  spec: LookupSpec,
  more: Partial<Pick<ReadingContext, "run" | "touch" | "only">> = {},
): Promise<ReadingContext> {
  const { names } = db;
  const { key } = await readErasures(session, names, db.readErasureSecret);
  return {
    session,
    names,
    spec,
    foreign: db.foreignOf(spec.input),
    erased: key && erasedSql(names, key),
    run: null,
    touch: () => {},
    only: null,
    ...more,
  };
}

/** Counts what is due, and reads the first `count` records in the order of sending; writes nothing. */
export function previewLookup(
  db: Db,
  spec: LookupSpec,
  count: number,
): Promise<{ readonly counts: LookupCounts; readonly records: readonly LookupRecord[] }> {
  return db.preview(async (session) => {
    const counts = await readInput(await contextOf(db, session, spec));
    return { counts, records: count === 0 ? [] : await readFirstDue(session, spec, count) };
  });
}

/** Rows from which on statistics are worth their time: without them, a join of a few thousand rows takes seconds. */
const MANY_ROWS = 500;

/**
 * Refreshes the statistics that joins of the lookup tables are planned by: after a reading, for its commits, and after these, for the
 * coverage. In a transaction of its own: its lock would make other shards wait.
 */
export async function analyzeLookups(db: Db): Promise<void> {
  const [row, due, answer] = ["lookup_row", "lookup_due", "lookup_answer"].map((table) =>
    tableText(db.names, table),
  );
  // A larger sample takes longer than it saves.
  await db.transaction(({ client }) =>
    client.query(`SET LOCAL default_statistics_target = 10;
      ANALYZE (SKIP_LOCKED) ${row} (job, source, content), ${due} (kind, content), ${answer} (kind, content, answered_at)`),
  );
}

/** Reads the input, claims what is due and publishes answers that exist already, in one transaction. */
export async function selectLookup(db: Db, spec: LookupSpec, run: RunRef): Promise<LookupSelection> {
  const { names } = db;
  const { counts, rowsWritten, inDoubt } = await db.transaction(run, async (session) => {
    const written = new Map<string, number>();
    const touch = (table: string, rows: number) => void written.set(table, (written.get(table) ?? 0) + rows);
    const found = await countInDoubt(session, names, run);
    const read = await readInput(await contextOf(db, session, spec, { run, touch }));
    const changed = [...written].filter(([, rows]) => rows > 0);
    await touchTables(
      session,
      names,
      run,
      changed.map(([table]) => table),
    );
    return { counts: read, inDoubt: found, rowsWritten: changed.reduce((sum, [, rows]) => sum + rows, 0) };
  });
  if (Math.max(counts.due, rowsWritten) > MANY_ROWS) await analyzeLookups(db);
  async function* records(within: Retry = (work) => work()): AsyncGenerator<readonly LookupRecord[]> {
    let after = "";
    let read = 0;
    for (;;) {
      const page = await within(() =>
        db.transaction(run, (session) => readClaims(session, names, spec, run, { after, size: PAGE_SIZE })),
      );
      const last = page.at(-1);
      if (!last) return;
      const before = read;
      yield page.map((record, i) => (before + i < inDoubt ? { ...record, mayBeBilled: true } : record));
      read += page.length;
      after = last.content;
    }
  }
  return {
    counts,
    rowsWritten,
    records,
    countOpen: () => db.transaction((session) => countOpen(session, names, spec.kind, run)),
    markSent: (sent) =>
      db.transaction(run, (session) =>
        markSent(
          session,
          names,
          spec.kind,
          run,
          sent.map(({ content }) => content),
        ),
      ),
    close: () => db.transaction(run, (session) => releaseClaims(session, names, spec.kind, run)),
  };
}
