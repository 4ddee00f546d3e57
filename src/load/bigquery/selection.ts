import { sql } from "kysely";
import { StopJobError } from "../../errors.ts";
import type { LookupRecord, LookupSelection, LookupSpec, Patience, RunRef } from "../warehouse.ts";
import { tableId } from "./names.ts";
import { isHeldBy, lockLost } from "./run-transaction.ts";
import { dropTable } from "./staging.ts";
import type { Selected } from "./select-lookup.ts";
import { tableNamesOf } from "./selection-tables.ts";
import type { Session } from "./session.ts";
import { recordOf, type WorkRow } from "./work-table.ts";

/** Records of a selection that are read at once. */
const PAGE_SIZE = 5000;

/** Whose selection it is. */
export interface SelectionOwner {
  readonly session: Session;
  readonly run: RunRef;
  readonly spec: LookupSpec;
}

/** Throws a LockLostError unless the run holds its lock: reading needs no fence, but who has lost the lock shouldn't go on. */
async function requireLock({ session, run }: SelectionOwner): Promise<void> {
  const held = await session.rows(
    sql`SELECT 1 AS held FROM ${tableId(session.names, "ops", "job_lock")} WHERE ${isHeldBy(run)}`,
  );
  if (held.length === 0) throw lockLost(run);
}

/**
 * What was selected, read page by page straight from the work table, which costs nothing; in the order in which BigQuery has
 * stored it, each page by content hash.
 */
export function selectionOf(owner: SelectionOwner, { counts, rowsWritten }: Selected): LookupSelection {
  const { session, run, spec } = owner;
  const { work } = tableNamesOf(run);

  async function readPage(start: number): Promise<readonly LookupRecord[]> {
    await requireLock(owner);
    const rows = await session.tableRows<WorkRow>("data", work, start, PAGE_SIZE);
    const records = rows.map((row, i) => recordOf(row, start + i, spec));
    return records.toSorted((a, b) => (a.sentHash < b.sentHash ? -1 : 1));
  }

  async function* records(within: Patience = (page) => page()): AsyncGenerator<readonly LookupRecord[]> {
    let read = 0;
    while (read < counts.toSend) {
      const start = read;
      const page = await within(() => readPage(start));
      if (page.length === 0) {
        throw new StopJobError(
          "work_table_lost",
          `${run.job}: the table with what is still to be sent is gone (${read} of ${counts.toSend} records were read). ` +
            "Run the job again; what was answered before is kept.",
        );
      }
      read += page.length;
      yield page;
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
