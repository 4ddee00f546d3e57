import type { Cell } from "../../schemas/convert.ts";
import type { Drift } from "../../schemas/drift.ts";
import type { Attempt } from "../../schemas/attempt.ts";
import type { RunRef } from "../runs/run-ref.ts";
import type { CounterDelta } from "../ledger/counters.ts";

/** Marks stored rows that a reading no longer contains. */
export interface MissingRows {
  /** Columns and values of the rows that the reading covers. Missing rows within it are marked. */
  readonly scope: Readonly<Record<string, string>>;
  /** Boolean column set to false; null if {@link since} alone is the mark. Null in rows without a mark. */
  readonly flag: string | null;
  /** Column set to {@link at}. */
  readonly since: string;
  /** ISO 8601 with offset. */
  readonly at: string;
  /** True if more than half of the rows can't be missing: then none is marked. */
  readonly atMostHalf?: boolean;
}

/** Rows of one declared table. */
export interface FeedUpsert {
  readonly table: string;
  /** Columns of each row, with the whole key and without `_synced_at` and `_run_id`. Others keep their values. */
  readonly columns: readonly string[];
  /** Iterated once per attempt. If keys are equal, the last row counts. */
  readonly rows: Iterable<readonly Cell[]>;
  /** Columns that keep their first value (`first_seen_at`). */
  readonly keep?: readonly string[];
  /** Columns that change only together with others (`observed_at`). */
  readonly along?: readonly string[];
  /** True for rows about the reading itself (`last_checked_at`), not counted as written. */
  readonly isBookkeeping?: boolean;
  /** Marks stored rows that are not among {@link rows}. */
  readonly missing?: MissingRows;
  /** Key of the parent of child rows: its other children are deleted, and it counts as changed with them. */
  readonly replaces?: Readonly<Record<string, string>>;
}

/** Sets a stream's checkpoint to any JSON value; null deletes it. */
export interface CheckpointMove {
  readonly stream: string;
  readonly cursor: unknown;
}

/** Rows, checkpoints, ledger and counters to be committed together. */
export interface FeedCommit {
  readonly run: RunRef;
  /** Equal for all attempts, to recognize a commit whose reply was lost. */
  readonly commitId: string;
  /** Attempts of free calls since the last commit. */
  readonly ledger: readonly Attempt[];
  readonly drift: readonly Drift[];
  /** Excludes `rows_written`, which is added. */
  readonly counters: CounterDelta;
  readonly upserts: readonly FeedUpsert[];
  readonly checkpoints: readonly CheckpointMove[];
}

/** Result of one {@link FeedUpsert}. */
export interface UpsertResult {
  /** Distinct rows received, without those of erased people. */
  readonly given: number;
  /** Rows omitted because they name an erased person. */
  readonly suppressed: number;
  readonly inserted: number;
  /** Rows with a changed column; unchanged rows are not written. */
  readonly updated: number;
  /** Rows marked as missing, or deleted. */
  readonly marked: number;
  /** Missing rows that were not marked, because they were more than half. */
  readonly unbelieved: number;
}

/** A stored checkpoint. */
export interface StoredCheckpoint {
  readonly stream: string;
  readonly cursor: unknown;
  readonly updatedAt: string;
  readonly runId: string;
}
