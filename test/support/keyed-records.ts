import { sql } from "kysely";
import type { Db } from "../../src/load/db/db.ts";
import { tableId } from "../../src/load/db/names.ts";
import type { LookupRecord, LookupSpec } from "../../src/load/lookups/lookup.ts";
import type { LookupSelection } from "../../src/load/lookups/selection.ts";

/** A record with the keys of the job's input rows that have it; for validate_emails the address. */
export interface KeyedRecord extends LookupRecord {
  readonly keys: readonly string[];
}

/** All records of a selection. */
export async function recordsOf(
  db: Db,
  { job, source }: Pick<LookupSpec, "job" | "source">,
  selection: LookupSelection,
): Promise<readonly KeyedRecord[]> {
  const records: LookupRecord[] = [];
  for await (const page of selection.records()) records.push(...page);
  const rows = await db.transaction((session) =>
    session.rows<{ readonly content: string; readonly source_key: string }>(sql`
      SELECT encode(content, 'hex') AS content, source_key FROM ${tableId(db.names, "lookup_row")}
      WHERE job = ${job} AND source = ${source} AND content IS NOT NULL ORDER BY source_key COLLATE "C"`),
  );
  const byContent = Map.groupBy(rows, ({ content }) => content);
  return records.map((record) => ({
    ...record,
    keys:
      record.address === undefined
        ? (byContent.get(record.content) ?? []).map((row) => row.source_key)
        : [record.address],
  }));
}
