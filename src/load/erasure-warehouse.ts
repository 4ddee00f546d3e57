import type { Asker, LedgerEntry, RunRef } from "./ledger/books.ts";
import type { InputSource } from "./inputs/input-source.ts";

/** One input row. */
export interface RowKey {
  readonly source: string;
  readonly sourceKey: string;
}

/** What people are known by. */
export interface KnownBy {
  readonly pids: readonly string[];
  readonly emails: readonly string[];
  readonly rows: readonly RowKey[];
}

/** People whom {@link ErasureWarehouse.findPeople} has found. */
export interface FoundPeople {
  /** All that they are known by. Addresses in the form in which they are compared. */
  readonly people: KnownBy;
  /** What named them, and what the inputs say of that: from here they are followed again when they are noted. */
  readonly seed: KnownBy;
  /** Whether PIDs and addresses that other input rows have as well are left out. */
  readonly sparesOthers: boolean;
}

/** What a job knows rows of. */
export interface WatchedInput {
  readonly job: string;
  readonly type: "resolve" | "validate_emails" | "enrich";
  readonly input: InputSource;
}

/** How many rows have left an input. */
export interface MissingRows {
  /** Keys that the input has now. */
  readonly inputRows: number;
  /** Rows that the job knows of, missing ones included. */
  readonly known: number;
  /** Rows in `missing_input_row` for this input, whichever job knew them. */
  readonly missing: number;
}

/** Rows by table. */
export type RowsByTable = Readonly<Record<string, number>>;

/**
 * Erasing people and keeping them out. Whatever stores people (`commitLookup`, `selectLookup`) begins anew when somebody is
 * erased while it is under way, so that an erasure which has been noted can't be undone by a load in flight.
 */
export interface ErasureWarehouse {
  /** Throws a FixConfigurationError unless the key at hand is the one that people were erased with; fine before the first. */
  checkErasureKey(): Promise<void>;
  /**
   * All that the people are known by whom some of it names: here, and in the inputs. Changes nothing.
   * @param options.spareOthers leaves out PIDs and addresses that other input rows have as well.
   */
  findPeople(
    named: KnownBy,
    inputs: readonly InputSource[],
    options?: { readonly spareOthers: boolean },
  ): Promise<FoundPeople>;
  /** Rows that name these people, by table; tables without any are left out. Changes nothing. */
  countPeople(people: KnownBy): Promise<RowsByTable>;
  /**
   * Keeps these people out from now on, and leaves their tombstones: durable once this resolves. What was committed since
   * they were found belongs to them too: they are followed once more, while commits wait.
   */
  noteErasure(erasureId: string, found: FoundPeople): Promise<void>;
  /** Erasures that were noted and whose rows haven't all been removed; empty before the first migration. */
  openErasures(): Promise<readonly string[]>;
  /** Removes all rows of an erasure's people; idempotent. Returns the rows removed or changed, by table. */
  removeErased(erasureId: string): Promise<RowsByTable>;
  /** Removes the tombstones of erasures that ended so long ago; returns how many. */
  dropTombstones(olderThanMs: number): Promise<number>;
  /** The segments in which these people are, as far as feeds have seen them or jobs have put them there. */
  membershipsOf(
    pids: readonly string[],
  ): Promise<readonly { readonly segmentId: string; readonly servicePid: string }[]>;
  /** Notes free calls that belong to no run of a job in the ledger: those with which people leave segments. */
  noteCalls(asker: Asker, entries: readonly LedgerEntry[]): Promise<void>;
  /** Notes which rows that the job knows of have left its input, and forgets those that are back: `missing_input_row`. */
  noteMissingRows(run: RunRef, watched: WatchedInput): Promise<MissingRows>;
  /** Keys of an input that are noted as missing, at most so many. */
  readMissingRows(source: string, limit: number): Promise<readonly string[]>;
  /** Of these PIDs those of erased people. Costs one look while nobody was erased. */
  suppressedPids(pids: readonly string[]): Promise<ReadonlySet<string>>;
}
