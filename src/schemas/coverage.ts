import type { Cell } from "./convert.ts";
import { jsonType } from "./convert.ts";
import { type DriftLog, fieldName } from "./drift.ts";
import type { Fields } from "./field.ts";
import { extraCell, flattenerOf, isJsonObject } from "./flatten.ts";

/** Rows of a table, as a commit takes them. */
export interface TableRows {
  readonly table: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
}

/** Rows of a coverage object, and what has no column. */
interface FlatCoverage {
  /** Channel, fields, `_extra`. */
  readonly rows: readonly (readonly Cell[])[];
  /** Undeclared channels by name; null if there are none. */
  readonly extra: Readonly<Record<string, unknown>> | null;
}

/** Compiles a coverage object: one object of the same fields per channel. Null for a value that isn't an object. */
export function coverageReaderOf(
  channels: readonly string[],
  fields: Fields,
  path: string,
): (value: unknown, drift: DriftLog) => FlatCoverage | null {
  const readers = new Map(
    channels.map((channel) => [channel, flattenerOf({ fields, lists: {} }, `${path}.${channel}.`)]),
  );
  return (value, drift) => {
    if (!isJsonObject(value)) {
      if (value !== null && value !== undefined) drift.note("unexpected_type", path, jsonType(value));
      return null;
    }
    const rows: (readonly Cell[])[] = [];
    const others: [string, unknown][] = [];
    for (const [channel, counts] of Object.entries(value)) {
      const reader = readers.get(channel);
      if (reader && isJsonObject(counts)) {
        const { object } = reader.flatten(counts, null, drift);
        rows.push([channel, ...object.cells.map((cell) => cell ?? null), extraCell(object.extra)]);
        continue;
      }
      if (counts === null) continue;
      const kind = reader ? "unexpected_type" : "unknown_field";
      drift.note(kind, `${path}.${fieldName(channel)}`, jsonType(counts));
      others.push([channel, counts]);
    }
    return { rows, extra: others.length === 0 ? null : Object.fromEntries(others) };
  };
}

/** Adds what has no column in a nested object to the `_extra` of its parent. */
export function withNested(
  extra: Readonly<Record<string, unknown>> | null,
  nested: Readonly<Record<string, unknown>>,
): Record<string, unknown> | null {
  const kept = Object.entries(nested).filter(([, value]) => value !== null && value !== undefined);
  return kept.length === 0 && extra === null ? null : { ...extra, ...Object.fromEntries(kept) };
}
