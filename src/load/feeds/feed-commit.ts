import type { Cell } from "../../schemas/convert.ts";
import type { Drift } from "../../schemas/drift.ts";
import type { CounterDelta, LedgerEntry, RunRef } from "../ledger/books.ts";

/** Marks stored rows that a reading no longer contains. */
export interface MissingRows {
  /** Columns and values of the rows that the reading covers; those it doesn't contain are marked. */
  readonly scope: Readonly<Record<string, string>>;
  /** Boolean column that turns false; null if {@link since} alone is the mark, null in rows without it. */
  readonly flag: string | null;
  /** Column set to {@link at}. */
  readonly since: string;
  /** ISO 8601 with offset. */
  readonly at: string;
}

/** Rows of one declared table. */
export interface FeedUpsert {
  readonly table: string;
  /** Columns of each row, with the whole key and without `_synced_at` and `_run_id`. Others keep their values. */
  readonly columns: readonly string[];
  /** Iterated again by each attempt; of rows with equal keys the last one counts. */
  readonly rows: Iterable<readonly Cell[]>;
  /** Columns that keep their first value (`first_seen_at`). */
  readonly keep?: readonly string[];
  /** Columns that change only together with others (`observed_at`). */
  readonly along?: readonly string[];
  /** True for rows about the reading itself (`last_checked_at`), not counted as written. */
  readonly isBookkeeping?: boolean;
  /** Marks stored rows that are not among {@link rows}. */
  readonly missing?: MissingRows;
}

/** Moves a stream's checkpoint: any JSON value, null to forget it. */
export interface CheckpointMove {
  readonly stream: string;
  readonly cursor: unknown;
}

/** Rows, checkpoints, ledger and counters to be committed together. */
export interface FeedCommit {
  readonly run: RunRef;
  /** The same for every attempt, so that a commit whose reply was lost is recognized. */
  readonly commitId: string;
  /** Attempts of free calls since the last commit. */
  readonly ledger: readonly LedgerEntry[];
  readonly drift: readonly Drift[];
  /** Without `rows_written`, which is added. */
  readonly counters: CounterDelta;
  readonly upserts: readonly FeedUpsert[];
  readonly checkpoints: readonly CheckpointMove[];
  /** Stored in `warehouse_identity` unless there is one. */
  readonly organization?: string | undefined;
}

/** Result of one {@link FeedUpsert}. */
export interface UpsertResult {
  /** Distinct rows given, without those of erased people. */
  readonly given: number;
  /** Rows left out because they name an erased person. */
  readonly suppressed: number;
  readonly inserted: number;
  /** Rows with a changed column; others are not written. */
  readonly updated: number;
  /** Rows marked as missing. */
  readonly marked: number;
}

/** A stored checkpoint. */
export interface StoredCheckpoint {
  readonly stream: string;
  readonly cursor: unknown;
  readonly updatedAt: string;
  readonly runId: string;
}
