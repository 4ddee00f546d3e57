import { createHash } from "node:crypto";
import { sql } from "kysely";
import { StopJobError } from "../../errors.ts";
import type { Db } from "../db/db.ts";
import { stateTableId } from "../db/names.ts";
import { isMigrated } from "../db/setup.ts";
import { readSuppression, requireSameEpoch } from "../erasure/suppressed-sql.ts";
import { againIfErased, noSuppression } from "../erasure/suppression.ts";
import { dropOrphanedWorkTables } from "../runs/runs.ts";
import type { LookupCounts, LookupRecord, LookupSelection, LookupSpec, Patience, RunRef } from "../lookup.ts";
import { type Selected, selectDue } from "./select-lookup.ts";
import { readWorkPage } from "./work-table.ts";

/** Records per page. */
const PAGE_SIZE = 2000;

/** Counts what is due; changes nothing, and works before the first migration too. */
export async function planLookup(db: Db, spec: LookupSpec): Promise<LookupCounts> {
  const { names } = db;
  const isMade = await isMigrated(db);
  const { counts } = await db.preview(async (session) => {
    const suppression = isMade ? await readSuppression(session, names, db.readErasureSecret) : noSuppression;
    const context = {
      session,
      names,
      spec,
      foreign: db.foreignOf(spec.input),
      isMigrated: isMade,
      suppression,
    };
    return selectDue(context, null);
  });
  return counts;
}

/** Freezes what is due in a work table, rejects unusable rows and reuses fresh answers, in one transaction. */
export async function selectLookup(db: Db, spec: LookupSpec, run: RunRef): Promise<LookupSelection> {
  const { names } = db;
  const workTable = workTableName(run);
  // In its own transaction: other shards that look for orphans would wait until this selection is made.
  await db.transaction(run, (session) => dropOrphanedWorkTables(session, names, spec));
  const selected = await againIfErased(() =>
    db.transaction(run, async (session) => {
      const suppression = await readSuppression(session, names, db.readErasureSecret);
      const context = {
        session,
        names,
        spec,
        foreign: db.foreignOf(spec.input),
        isMigrated: true,
        suppression,
      };
      const found = await selectDue(context, { run, workTable });
      await requireSameEpoch(session, names, suppression);
      return found;
    }),
  );
  return selectionOf(db, { run, spec, workTable }, selected);
}

function workTableName({ runId, job, shard }: RunRef): string {
  const name = JSON.stringify([runId, job, shard]);
  return `lookup_work_${createHash("sha256").update(name).digest("hex").slice(0, 24)}`;
}

function selectionOf(
  db: Db,
  frozen: { readonly run: RunRef; readonly spec: LookupSpec; readonly workTable: string },
  { counts, rowsWritten, checkpoint }: Selected,
): LookupSelection {
  const { run, spec, workTable } = frozen;
  const table = stateTableId(db.names, workTable);
  async function* records(within: Patience = (work) => work()): AsyncGenerator<readonly LookupRecord[]> {
    let afterOrd = 0;
    let read = 0;
    while (read < counts.toSend) {
      const page = await within(() =>
        db.transaction(run, (session) => readWorkPage(session, table, spec, { afterOrd, size: PAGE_SIZE })),
      );
      // The work table is unlogged: a crash of the server empties it, which must not look like the end.
      if (page.read === 0) {
        throw new StopJobError(
          "work_table_lost",
          `${run.job}: the database crashed and lost the list of what is still to be sent ` +
            `(${read} of ${counts.toSend} records were read). Run the job again; answers received so far are kept.`,
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
    records,
    close: () =>
      db.transaction(run, async (session) => {
        await session.change(sql`DROP TABLE IF EXISTS ${table}`);
      }),
  };
}
