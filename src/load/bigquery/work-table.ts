import type { LookupRecord, LookupSpec, Outcome } from "../warehouse.ts";
import { HASH_BYTES, hashesInDoubt } from "./call-in-doubt.ts";
import type { DatasetNames } from "./names.ts";
import type { SelectionTables } from "./selection-tables.ts";

/** The distinct records of what is due, by content: sent_hash, rank, occurrences. */
export function groupedRecords({ due, reused }: SelectionTables, isReusing: boolean): string {
  return `SELECT sent_hash, MIN(rank) AS rank, SUM(occurrences) AS occurrences FROM ${due} AS d
    WHERE ${isToSend(reused, isReusing)} GROUP BY sent_hash`;
}

const IS_DUE = "class NOT IN ('unchanged', 'waiting', 'suppressed') AND NOT STARTS_WITH(class, 'reject:')";

/** Of rows `d`: a name without that would be found in the inner table first. */
function isToSend(reused: string, isReusing: boolean): string {
  if (!isReusing) return IS_DUE;
  return `${IS_DUE} AND NOT EXISTS (SELECT 1 FROM ${reused} AS taken WHERE taken.source_key = d.source_key)`;
}

/**
 * The work table: one row a distinct record, with everything that a page needs. Under a cap the records whose first row
 * ranks lowest are kept.
 */
export function workRows(
  names: DatasetNames,
  spec: LookupSpec,
  tables: SelectionTables,
  isReusing: boolean,
): string {
  const cap = spec.maxRecords === null ? "" : `ORDER BY rank NULLS LAST, sent_hash LIMIT ${spec.maxRecords}`;
  return `SELECT TO_HEX(sent_hash) AS sent_hash, record, pid, input_rows, occurrences,
      SUBSTR(TO_HEX(sent_hash), 1, ${2 * HASH_BYTES}) IN (${hashesInDoubt(names, spec)}) AS in_doubt
    FROM (
      SELECT sent_hash, MIN(record) AS record, MIN(pid) AS pid, MIN(rank) AS rank, SUM(occurrences) AS occurrences,
        TO_JSON_STRING(ARRAY_AGG(STRUCT(source_key AS k, TO_HEX(input_hash) AS h, prior AS p) ORDER BY source_key)) AS input_rows
      FROM ${tables.due} AS d WHERE ${isToSend(tables.reused, isReusing)} GROUP BY sent_hash ${cap}) AS kept`;
}

/** One row of the work table, as it is read. */
export interface WorkRow {
  readonly sent_hash: string;
  readonly record: string;
  readonly pid: string | null;
  /** JSON: list of `{k: source_key, h: input_hash, p: prior outcome}`. */
  readonly input_rows: string;
  readonly occurrences: number;
  readonly in_doubt: boolean;
}

function priorOf(text: string | null): Outcome | null {
  return text === "matched" || text === "unmatched" || text === "rejected" ? text : null;
}

/** A row of the work table as a record; the number of its row is its id in the run. */
export function recordOf(row: WorkRow, index: number, { type }: LookupSpec): LookupRecord {
  // What the statement above has made of it.
  const inputRows = JSON.parse(row.input_rows) as readonly {
    readonly k: string;
    readonly h: string;
    readonly p: string | null;
  }[];
  return {
    recordId: String(index + 1),
    json: row.record,
    ...(type === "validate_emails" ? { address: inputRows[0]?.k ?? "" } : {}),
    sentHash: row.sent_hash,
    sentPid: row.pid,
    rows: inputRows.map(({ k, h, p }) => ({ sourceKey: k, inputHash: h, priorOutcome: priorOf(p) })),
    occurrences: row.occurrences,
    ...(row.in_doubt ? { mayBeBilled: true } : {}),
  };
}
