import type { Cell } from "../../schemas/convert.ts";
import type { Drift } from "../../schemas/drift.ts";
import type { CounterDelta, LedgerEntry, RunRef } from "../ledger/books.ts";

/** Marks rows that a feed no longer shows. */
export interface MissingRows {
  /** Which rows of the table the feed speaks of, by column; those of them that it doesn't show are marked. */
  readonly scope: Readonly<Record<string, string>>;
  /** Boolean column that turns false; null where {@link since} alone tells it, empty for rows that are not marked. */
  readonly flag: string | null;
  /** Column that gets {@link at}, when a row is marked. */
  readonly since: string;
  /** ISO 8601 with offset. */
  readonly at: string;
}

/** Rows of one declared table, as a feed shows them. */
export interface FeedUpsert {
  readonly table: string;
  /** Columns of each row, the whole key among them; without the bookkeeping ones. Others stay as they are stored. */
  readonly columns: readonly string[];
  /** Read anew by each try of the commit; of rows with equal keys the last one counts. */
  readonly rows: Iterable<readonly Cell[]>;
  /** Columns that keep what a row was first written with (`first_seen_at`). */
  readonly keep?: readonly string[];
  /** Columns that move only along with others (`observed_at`). */
  readonly along?: readonly string[];
  /** Rows about the reading itself (`last_checked_at`), which nobody counts as written. */
  readonly isBookkeeping?: boolean;
  /** What becomes of stored rows that are not among {@link rows}; without it nothing. */
  readonly missing?: MissingRows;
}

/** Moves a stream's checkpoint: any JSON value, null to forget it. */
export interface CheckpointMove {
  readonly stream: string;
  readonly cursor: unknown;
}

/** Everything that a piece of a feed leaves behind: committed together or not at all. */
export interface FeedCommit {
  readonly run: RunRef;
  /** Stays the same when the commit is tried again, so that one whose reply was lost is recognized. */
  readonly commitId: string;
  /** Attempts of free calls since the last commit. */
  readonly ledger: readonly LedgerEntry[];
  readonly drift: readonly Drift[];
  /** Without `rows_written`, which the warehouse adds. */
  readonly counters: CounterDelta;
  readonly upserts: readonly FeedUpsert[];
  readonly checkpoints: readonly CheckpointMove[];
  /** Noted as the warehouse's own (`warehouse_identity`), unless one is. */
  readonly organization?: string | undefined;
}

/** What became of one {@link FeedUpsert}. */
export interface UpsertResult {
  /** Distinct rows that were given, but for those of erased people. */
  readonly given: number;
  /** Rows that were left out because they name an erased person. */
  readonly suppressed: number;
  readonly inserted: number;
  /** Rows of which a column has changed, one that counts; no others are written. */
  readonly updated: number;
  /** Rows that were marked as missing. */
  readonly marked: number;
}

/** A stored checkpoint. */
export interface StoredCheckpoint {
  readonly stream: string;
  readonly cursor: unknown;
  readonly updatedAt: string;
  readonly runId: string;
}
