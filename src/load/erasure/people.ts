import type { InputSource } from "../inputs/input-source.ts";

/** One input row. */
export interface RowKey {
  readonly source: string;
  readonly sourceKey: string;
}

/** Identifiers of people. */
export interface Identifiers {
  readonly pids: readonly string[];
  readonly emails: readonly string[];
  readonly rows: readonly RowKey[];
}

/** People of an erasure. */
export interface FoundPeople {
  /** Subjects of the erasure; addresses are normalized. */
  readonly people: Identifiers;
  /** Addresses of these people that others have too: no subjects, so they stay. Normalized. */
  readonly sharedEmails: readonly string[];
  /** Identifiers that the search starts with: those named by the user, and those of input rows with them. */
  readonly seed: Identifiers;
  /** True if PIDs shared with other input rows are skipped. */
  readonly sparesOthers: boolean;
  /** True if a table or an input has a row of these people. */
  readonly isKnown: boolean;
}

/** A job and its input. */
export interface WatchedInput {
  readonly job: string;
  readonly type: "resolve" | "validate_emails" | "enrich";
  readonly input: InputSource;
}

/** Counts of deleted input rows. */
export interface MissingRows {
  /** Keys currently in the input. */
  readonly inputRows: number;
  /** Rows with a state of the job, including missing ones. */
  readonly known: number;
  /** Rows in `missing_input_row` for this input, of any job. */
  readonly missing: number;
}

/** Rows by table. */
export type RowsByTable = Readonly<Record<string, number>>;
