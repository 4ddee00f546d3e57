import { sql } from "kysely";
import { stateTableId, type SchemaNames } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { listWorkTables, RECORDS, ROWS } from "../due/work-table.ts";
import { stagedSql } from "./subjects.ts";

/** Removes the records of the staged subjects from the work lists of runs in progress, with the request and with each removal. */
export async function removeLookupState(session: Session, names: SchemaNames): Promise<void> {
  const records = new Set((await listWorkTables(session, names, RECORDS)).map(({ name }) => name));
  for (const { name, source } of await listWorkTables(session, names, ROWS)) {
    const rows = stateTableId(names, name);
    const theirs = sql`SELECT r.ord FROM ${rows} AS r
      WHERE r.source_key IN (SELECT source_key FROM pg_temp.erased_row WHERE source = ${source}) OR ${stagedSql.email("r.source_key")}`;
    const recordsName = name.replace(ROWS, RECORDS);
    let erased = theirs;
    if (records.has(recordsName)) {
      const work = stateTableId(names, recordsName);
      const isTheirs = sql`(${stagedSql.pid("t.pid")} OR t.ord IN (${theirs}))`;
      // Rows are emptied, not deleted: the run that reads them checks that the list is complete.
      await session.change(
        sql`UPDATE ${work} AS t SET sent_hash = '', record = '', pid = NULL WHERE ${isTheirs}`,
      );
      erased = sql`SELECT t.ord FROM ${work} AS t WHERE t.record = ''`;
    }
    await session.change(
      sql`UPDATE ${rows} SET source_key = NULL, input_hash = '', fingerprint = NULL WHERE ord IN (${erased}) AND source_key IS NOT NULL`,
    );
  }
}
