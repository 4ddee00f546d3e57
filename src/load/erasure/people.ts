import type { InputSource } from "../inputs/input-source.ts";

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

/** People an erasure is about. */
export interface FoundPeople {
  /** Everything they are known by. Addresses in the form in which they are compared. */
  readonly people: KnownBy;
  /** What named them: from here they are followed again when their rows are removed. */
  readonly seed: KnownBy;
  /** True if PIDs and addresses that other input rows have as well are left out. */
  readonly sparesOthers: boolean;
  /** True if a table or an input has a row of them. */
  readonly isKnown: boolean;
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
