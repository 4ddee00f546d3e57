import { withoutBlanksAround } from "./input-fields.ts";
import type { Part } from "./input-source.ts";

/** Rows of a sample. */
export const SAMPLE_ROWS = 1000;

/**
 * Characters that are read of a value, more than an address or a phone number has. Longer values are classified by them;
 * blanks around these aren't counted.
 */
export const SAMPLE_LENGTH = 400;

/** Elements that are read of a list. */
export const SAMPLE_ELEMENTS = 10;

/** Milliseconds for each statement over a whole input; `check` goes on without its result. */
export const SAMPLE_LIMIT_MS = 10_000;

/** A mapped column with its values in the sample. */
export interface SampledColumn extends Pick<Part, "field" | "column" | "isArray"> {
  /** Type in the database's own words; the element type for a list. */
  readonly typeName: string;
  /** Values of each sampled row; none for NULL. */
  readonly values: readonly (readonly string[])[];
}

/** Rows of a whole input, by key. */
export interface KeyCounts {
  readonly rows: number;
  /** Rows with a NULL in their key. */
  readonly withoutKey: number;
  /** Rows with the key of another row, except one of each key. */
  readonly duplicates: number;
}

/** Counts and sampled rows of an input, as `check` and `init` read them. */
export interface InputSample {
  /** Null if counting took too long. */
  readonly keys: KeyCounts | null;
  /** True if an index makes the key unique. */
  readonly keyIsUnique: boolean;
  /** Columns without NULL that a primary key or unique index makes unique; null for none. */
  readonly uniqueColumns: readonly string[] | null;
  /** The same random rows each time; the first rows if choosing took too long. */
  readonly columns: readonly SampledColumn[];
  readonly sampledRows: number;
  /** Names of all columns. */
  readonly names: readonly string[];
  readonly engine: "postgres" | "bigquery";
}

/** Values of a sampled row, in the order of the parts: a text, or a list of texts and nulls. */
export type SampledRow = readonly (string | readonly (string | null)[] | null)[];

/** Arranges sampled rows by column. */
export function columnsOfRows(
  parts: readonly Part[],
  rows: readonly SampledRow[],
  typeNameOf: (column: string) => string,
): readonly SampledColumn[] {
  return parts.map(({ field, column, isArray }, index) => ({
    field,
    column,
    isArray,
    typeName: typeNameOf(column),
    values: rows.map((row) => {
      const value = row[index] ?? null;
      if (value === null) return [];
      const texts = typeof value === "string" ? [value] : value.filter((text) => text !== null);
      // The last character that was read can be a blank between two words.
      return texts.map((text) => (text.length < SAMPLE_LENGTH ? text : withoutBlanksAround(text)));
    }),
  }));
}
