import { StopJobError } from "../../errors.ts";
import type { Db } from "../db/db.ts";
import type { Session } from "../db/session.ts";
import { countInDoubt } from "../ledger/in-doubt.ts";
import { readSuppression } from "../erasure/suppressed-sql.ts";
import { countOutcomes, markSent, type Outcomes } from "./outcomes.ts";
import { type SelectContext, type Selected, selectDue } from "./select-lookup.ts";
import {
  dropOrphanedWorkTables,
  dropWorkTables,
  readFirstRecords,
  readWorkPage,
  workTablesOf,
} from "./work-table.ts";
import type { LookupCounts } from "./lookup-counts.ts";
import type { LookupRecord, WorkTables, FrozenRecords } from "./lookup-record.ts";
import type { LookupSpec } from "./lookup-spec.ts";
import type { RunRef } from "../runs/run-ref.ts";

/** Runs work, with retries. */
export type Retry = <Result>(work: () => Promise<Result>) => Promise<Result>;

/** Due records, frozen at the start of the run. */
export interface LookupSelection {
  readonly counts: LookupCounts;
  /** Warehouse rows written by the selection. */
  readonly rowsWritten: number;
  /** Name of the table with the input rows of each record; part of every commit. */
  readonly workTable: string;
  readonly frozen: FrozenRecords;
  /**
   * Pages of distinct records, ordered by content hash.
   * @param within runs the read of each page, with retries.
   */
  records(within?: Retry): AsyncIterable<readonly LookupRecord[]>;
  /** Counts the outcomes of the frozen records; before the work tables are dropped. */
  count(): Promise<Outcomes>;
  /** Marks records as sent although no outcome followed. */
  markSent(recordIds: readonly string[]): Promise<void>;
  /** Drops the work tables; keeps rows needed by uncommitted answers. Idempotent. */
  close(): Promise<void>;
}

/** Records per page. */
const PAGE_SIZE = 2000;

/** Context of a selection in a transaction. */
export async function contextOf(db: Db, session: Session, spec: LookupSpec): Promise<SelectContext> {
  const { names } = db;
  const suppression = await readSuppression(session, names, db.readErasureSecret);
  return { session, names, spec, foreign: db.foreignOf(spec.input), suppression };
}

/** Counts what is due, and reads the first `count` records in the order of sending; writes nothing. */
export function previewLookup(
  db: Db,
  spec: LookupSpec,
  count: number,
): Promise<{ readonly counts: LookupCounts; readonly records: readonly LookupRecord[] }> {
  return db.preview(async (session) => {
    const { counts } = await selectDue(await contextOf(db, session, spec), null);
    return { counts, records: count === 0 ? [] : await readFirstRecords(session, spec, count) };
  });
}

/** Freezes what is due in work tables, rejects unusable rows and reuses fresh answers, in one transaction. */
export async function selectLookup(db: Db, spec: LookupSpec, run: RunRef): Promise<LookupSelection> {
  const { names } = db;
  const tables = workTablesOf(run);
  // In a separate transaction: other shards that drop orphans would wait until the selection commits.
  await db.transaction(run, (session) =>
    dropOrphanedWorkTables(session, names, { source: spec.input.name, run }),
  );
  const { found, ...since } = await db.transaction(run, async (session) => {
    const context = await contextOf(db, session, spec);
    const inDoubt = await countInDoubt(session, names, run);
    return {
      found: await selectDue(context, { run, tables }),
      inDoubt,
      erasureEpoch: context.suppression.epoch,
    };
  });
  return selectionOf(db, { run, spec, tables }, found, since);
}

function selectionOf(
  db: Db,
  frozen: { readonly run: RunRef; readonly spec: LookupSpec; readonly tables: WorkTables },
  { counts, rowsWritten }: Selected,
  { inDoubt, erasureEpoch }: { readonly inDoubt: number; readonly erasureEpoch: number },
): LookupSelection {
  const { run, spec, tables } = frozen;
  async function* records(within: Retry = (work) => work()): AsyncGenerator<readonly LookupRecord[]> {
    let afterOrd = 0;
    let read = 0;
    while (read < counts.toSend) {
      const page = await within(() =>
        db.transaction(run, (session) =>
          readWorkPage(session, db.names, spec, { tables, afterOrd, size: PAGE_SIZE, inDoubt }),
        ),
      );
      // An emptied table must not look like the end.
      if (page.read === 0) {
        throw new StopJobError(
          "work_table_lost",
          `${run.job}: the list of records to send disappeared from the database (${read} of ${counts.toSend} were read). ` +
            "Run the job again; answers received so far are kept.",
        );
      }
      read += page.read;
      afterOrd = page.lastOrd;
      if (page.records.length > 0) yield page.records;
    }
  }
  return {
    counts,
    rowsWritten,
    workTable: tables.rows,
    frozen: { source: spec.input.name, type: spec.type, tables, erasureEpoch },
    records,
    count: () =>
      db.transaction((session) =>
        countOutcomes(session, db.names, run, { source: spec.input.name, rows: tables.rows }),
      ),
    markSent: (recordIds) =>
      db.transaction(run, (session) => markSent(session, db.names, tables.rows, recordIds)),
    close: () => db.transaction(run, (session) => dropWorkTables(session, db.names, run, tables)),
  };
}
