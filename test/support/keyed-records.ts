import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import type { Db } from "../../src/load/db/db.ts";
import { stateTableId } from "../../src/load/db/names.ts";
import type { CommitResult, LookupCommit } from "../../src/load/answers/commit-lookup.ts";
import type { LookupRecord, Outcome } from "../../src/load/due/lookup-record.ts";
import type { LookupSelection } from "../../src/load/due/lookup-selection.ts";

/** An input row of a record. */
export interface KeyedRow {
  readonly sourceKey: string;
  /** SHA-256, hex. */
  readonly inputHash: string;
  readonly priorOutcome: Outcome | null;
}

/** A record with its input rows, which otherwise only the database has. */
export interface KeyedRecord extends LookupRecord {
  readonly rows: readonly KeyedRow[];
}

/** Work table of commits with records outside a selection. */
export const LOOSE = "loose";

/** All records of a selection, with their input rows. */
export async function recordsOf(db: Db, selection: LookupSelection): Promise<readonly KeyedRecord[]> {
  const records: LookupRecord[] = [];
  for await (const page of selection.records()) records.push(...page);
  const rows = await db.transaction((session) =>
    session.rows<KeyedRow & { readonly ord: string }>(sql`
      SELECT ord::text AS ord, source_key AS "sourceKey", encode(input_hash, 'hex') AS "inputHash", prior AS "priorOutcome"
      FROM ${stateTableId(db.names, selection.workTable)} ORDER BY ord, source_key COLLATE "C"`),
  );
  const byRecord = Map.groupBy(rows, ({ ord }) => ord);
  return records.map((record) => ({
    ...record,
    rows: (byRecord.get(record.recordId) ?? []).map(({ sourceKey, inputHash, priorOutcome }) => ({
      sourceKey,
      inputHash,
      priorOutcome,
    })),
  }));
}

/** Commits. Creates a temporary work table for records outside a selection. */
export async function commitLoose(
  db: Db,
  commit: LookupCommit,
  commitWith: (commit: LookupCommit) => Promise<CommitResult>,
): Promise<CommitResult> {
  if (commit.workTable !== LOOSE) return commitWith(commit);
  const workTable = `lookup_row_${randomUUID()}`;
  const table = stateTableId(db.names, workTable);
  const rows = [...commit.answers, ...commit.rejects].flatMap(({ record }) =>
    // Loose records have keys.
    (record as KeyedRecord).rows.map((row) => ({ ord: record.recordId, ...row })),
  );
  await db.transaction(async (session) => {
    await session.change(sql`CREATE TABLE ${table} AS
      SELECT DISTINCT ord, "sourceKey" AS source_key, decode("inputHash", 'hex') AS input_hash, "priorOutcome" AS prior, NULL::bytea AS fingerprint,
        1::bigint AS occurrences
      FROM json_to_recordset(${JSON.stringify(rows)}::json)
        AS r(ord bigint, "sourceKey" text, "inputHash" text, "priorOutcome" text)`);
  });
  try {
    return await commitWith({ ...commit, workTable });
  } finally {
    await db.transaction((session) => session.change(sql`DROP TABLE ${table}`));
  }
}
