import { sql } from "kysely";
import type { ForeignDatabase } from "../foreign-database.ts";
import type { LookupSpec } from "../warehouse.ts";
import { classifiedAddresses, type ClassifyContext, classifiedRows, inputAddresses } from "./classify.ts";
import { openLocalInput } from "./foreign-input.ts";
import { type DatasetNames, quoteLiteral, tableText } from "./names.ts";
import type { Session } from "./session.ts";

/** What the size of a selection depends on. */
export interface ScanContext {
  readonly session: Session;
  readonly names: DatasetNames;
  readonly spec: LookupSpec;
  readonly isMigrated: boolean;
  /** Where the input is; null for BigQuery itself. */
  readonly foreign: ForeignDatabase | null;
}

/**
 * Bytes that a selection reads of the input and of what is known of its rows, by dry runs: nothing is read. What is read again of
 * its own tables, which hold what is due, isn't known before.
 */
export async function scannedBytes(context: ScanContext): Promise<number> {
  const { session, names, spec, isMigrated, foreign } = context;
  const reading = {
    type: spec.type,
    ranked: spec.maxRecords !== null,
    recent: null,
    isSharded: spec.shard !== null,
  };
  if (foreign) {
    const there = await foreign.scannedBytes(spec.input, reading);
    return (there ?? 0) + (isMigrated ? await sizeOf(session, [knownRows(names, spec)]) : 0);
  }
  const opened = await openLocalInput(session, spec, reading);
  const classify: ClassifyContext = {
    spec,
    names,
    parts: opened.parts,
    otherParts: opened.otherParts,
    rawRows: opened.rawRows,
    isMigrated,
    hasRank: reading.ranked && spec.input.orderBy !== null,
    hasRecent: false,
    // Hashes of erased people are few.
    suppressed: null,
    states: isMigrated ? tableText(names, "data", "lookup_state") : null,
  };
  const rows =
    spec.type === "validate_emails"
      ? classifiedAddresses(classify, `(${inputAddresses(classify)})`)
      : classifiedRows(classify);
  return sizeOf(session, [rows, ...(opened.cursorMax === null ? [] : [opened.cursorMax])]);
}

/** The columns by which rows of another database are compared. */
function knownRows(names: DatasetNames, { job, input }: LookupSpec): string {
  return `SELECT source_key, outcome, input_hash, parameters_hash, sent_service_pid, due_at
    FROM ${tableText(names, "data", "lookup_state")}
    WHERE job = ${quoteLiteral(job)} AND source = ${quoteLiteral(input.name)}`;
}

/** Bytes that these statements would read. */
export async function sizeOf(session: Session, statements: readonly string[]): Promise<number> {
  const described = await Promise.all(statements.map((text) => session.describe(sql.raw(text))));
  return described.reduce((sum, { bytes }) => sum + bytes, 0);
}
