import { sql } from "kysely";
import { StopJobError } from "../../errors.ts";
import { noSuppression } from "../suppression.ts";
import type { LookupRecord, LookupSelection, LookupSpec, Patience, RunRef } from "../warehouse.ts";
import { withoutErased } from "./keep-out.ts";
import { tableId } from "./names.ts";
import { isHeldBy, lockLost } from "./run-transaction.ts";
import { dropTable } from "./staging.ts";
import type { Selected } from "./select-lookup.ts";
import { tableNamesOf } from "./selection-tables.ts";
import type { Session } from "./session.ts";
import type { SuppressionReader } from "./suppression.ts";
import { recordOf, type WorkRow } from "./work-table.ts";

/** Records of a selection that are read at once. */
const PAGE_SIZE = 5000;

/** Whose selection it is. */
export interface SelectionOwner {
  readonly session: Session;
  readonly run: RunRef;
  readonly spec: LookupSpec;
  readonly suppression: SuppressionReader;
  /** Who was erased before is not in it. */
  readonly epoch: number;
}

/**
 * Throws a LockLostError unless the run holds its lock: reading needs no fence, but who has lost the lock shouldn't go on.
 * Returns the number of erasures.
 */
async function requireLock({ session, run }: SelectionOwner): Promise<number> {
  const { names } = session;
  const [row] = await session.rows<{ held: number; epoch: number }>(sql`
    SELECT (SELECT COUNT(*) FROM ${tableId(names, "ops", "job_lock")} WHERE ${isHeldBy(run)}) AS held,
      (SELECT IFNULL(MAX(epoch), 0) FROM ${tableId(names, "ops", "erasure_epoch")}) AS epoch`);
  if (!row || row.held === 0) throw lockLost(run);
  return row.epoch;
}

/**
 * What was selected, read page by page straight from the work table, which costs nothing; in the order in which BigQuery has
 * stored it, each page by content hash. For that order's sake erasures leave the table alone: who was erased since it was made
 * is left out here, and the table goes with the run.
 */
export function selectionOf(owner: SelectionOwner, { counts, rowsWritten }: Selected): LookupSelection {
  const { session, run, spec } = owner;
  const { work } = tableNamesOf(run);

  async function readPage(start: number): Promise<{ read: number; records: readonly LookupRecord[] }> {
    const epoch = await requireLock(owner);
    const rows = await session.tableRows<WorkRow>("data", work, start, PAGE_SIZE);
    const all = rows.map((row, i) => recordOf(row, start + i, spec));
    const { key } = epoch === owner.epoch ? noSuppression : await owner.suppression.refresh();
    const kept = key === null ? all : await withoutErased(session, key, spec, all);
    return { read: rows.length, records: kept.toSorted((a, b) => (a.sentHash < b.sentHash ? -1 : 1)) };
  }

  async function* records(within: Patience = (page) => page()): AsyncGenerator<readonly LookupRecord[]> {
    let read = 0;
    while (read < counts.toSend) {
      const start = read;
      const page = await within(() => readPage(start));
      if (page.read === 0) {
        throw new StopJobError(
          "work_table_lost",
          `${run.job}: the table with what is still to be sent is gone (${read} of ${counts.toSend} records were read). ` +
            "Run the job again; what was answered before is kept.",
        );
      }
      read += page.read;
      if (page.records.length > 0) yield page.records;
    }
  }

  return {
    counts,
    rowsWritten,
    records,
    async close() {
      await requireLock(owner);
      await dropTable(session, work);
    },
  };
}
