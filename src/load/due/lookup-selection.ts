import { StopJobError } from "../../errors.ts";
import type { Db } from "../db/db.ts";
import { readSuppression } from "../erasure/suppressed-sql.ts";
import type {
  LookupCounts,
  LookupRecord,
  LookupSelection,
  LookupSpec,
  Retry,
  RunRef,
  WorkTables,
} from "../lookup.ts";
import { type Selected, selectDue } from "./select-lookup.ts";
import { dropOrphanedWorkTables, dropWorkTables, readWorkPage, workTablesOf } from "./work-table.ts";

/** Records per page. */
const PAGE_SIZE = 2000;

/** Counts what is due; writes nothing. */
export async function planLookup(db: Db, spec: LookupSpec): Promise<LookupCounts> {
  const { names } = db;
  const { counts } = await db.preview(async (session) => {
    const suppression = await readSuppression(session, names, db.readErasureSecret);
    const context = {
      session,
      names,
      spec,
      foreign: db.foreignOf(spec.input),
      suppression,
    };
    return selectDue(context, null);
  });
  return counts;
}

/** Freezes what is due in work tables, rejects unusable rows and reuses fresh answers, in one transaction. */
export async function selectLookup(db: Db, spec: LookupSpec, run: RunRef): Promise<LookupSelection> {
  const { names } = db;
  const tables = workTablesOf(run);
  // In a separate transaction: other shards that drop orphans would wait until the selection commits.
  await db.transaction(run, (session) => dropOrphanedWorkTables(session, names, spec.job));
  const { found, erasureEpoch } = await db.transaction(run, async (session) => {
    const suppression = await readSuppression(session, names, db.readErasureSecret);
    const context = {
      session,
      names,
      spec,
      foreign: db.foreignOf(spec.input),
      suppression,
    };
    return { found: await selectDue(context, { run, tables }), erasureEpoch: suppression.epoch };
  });
  return selectionOf(db, { run, spec, tables }, found, erasureEpoch);
}

function selectionOf(
  db: Db,
  frozen: { readonly run: RunRef; readonly spec: LookupSpec; readonly tables: WorkTables },
  { counts, rowsWritten, checkpoint, cursorAhead }: Selected,
  erasureEpoch: number,
): LookupSelection {
  const { run, spec, tables } = frozen;
  async function* records(within: Retry = (work) => work()): AsyncGenerator<readonly LookupRecord[]> {
    let afterOrd = 0;
    let read = 0;
    while (read < counts.toSend) {
      const page = await within(() =>
        db.transaction(run, (session) =>
          readWorkPage(session, db.names, spec, { tables, afterOrd, size: PAGE_SIZE }),
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
    checkpoint,
    cursorAhead,
    workTable: tables.rows,
    frozen: { source: spec.input.name, type: spec.type, tables, erasureEpoch },
    records,
    close: () => db.transaction(run, (session) => dropWorkTables(session, db.names, run, tables)),
  };
}
