import type { LookupType } from "./lookup-spec.ts";
/** Outcome of an input row in its state. */
export type Outcome = "matched" | "unmatched" | "rejected";

/** One distinct record to send. Its input rows are in the selection's work table. */
export interface LookupRecord {
  /** Number of the record in the work table; holds no personal data. */
  readonly recordId: string;
  /** The record as JSON text, without `record_id`; for validate_emails the address as a JSON string. */
  readonly json: string;
  /** For validate_emails the address as sent. */
  readonly address?: string;
  /** SHA-256 of the record as sent, hex. */
  readonly sentHash: string;
  /** PID sent with the record, for `pid_from`. */
  readonly sentPid: string | null;
  /** True if it counts as sent in an earlier call that may have been billed. Absent for no. */
  readonly mayBeBilled?: boolean;
}

/** Names of the two work tables of a selection. */
export interface WorkTables {
  readonly records: string;
  readonly rows: string;
}

/** Records frozen by a selection. */
export interface FrozenRecords {
  readonly source: string;
  readonly type: LookupType;
  readonly tables: WorkTables;
  /** Erasure epoch at the time of the selection. */
  readonly erasureEpoch: number;
}
