import { z } from "zod";
import { type Cell, type DriftLog, fieldName, jsonType, pidOf } from "./convert.ts";
import { type Fields, integer, listPosition, numeric, oneOf, text, timestamptz } from "./field.ts";
import { extraCell, flattenerOf, isJsonObject, type JsonObject } from "./flatten.ts";
import { endpointOf } from "./answer.ts";
import { loadedColumns, type Table, table } from "./table.ts";

/** Rows of a table, as a commit takes them. */
export interface TableRows {
  readonly table: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
}

/** Rows of a declared table, with all columns in order but those that a commit adds. */
export function rowsOf(table: Table, rows: TableRows["rows"]): TableRows {
  return { table: table.name, columns: loadedColumns(table), rows };
}

/** Cells of an object, and what has no column in it: for the `_extra` of its parent, the value itself if it isn't an object. */
interface FlatFields {
  readonly cells: readonly Cell[];
  readonly extra: unknown;
}

/** Compiles an object of declared fields at a path of its parent. */
export function fieldsReaderOf(
  fields: Fields,
  path: string,
): (value: unknown, drift: DriftLog) => FlatFields {
  const reader = flattenerOf({ fields, lists: {} }, `${path}.`);
  return (value, drift) => {
    const object = nestedObject(value, path, drift);
    const { cells, extra } = reader.flatten(object ?? {}, null, drift).object;
    return { cells: cells.map((cell) => cell ?? null), extra: object ? extra : value };
  };
}

/** Returns a nested object; null for null, and for a value of another type, which is recorded as drift. */
export function nestedObject(value: unknown, path: string, drift: DriftLog): JsonObject | null {
  if (isJsonObject(value)) return value;
  if (value !== null && value !== undefined) drift.note("unexpected_type", path, jsonType(value));
  return null;
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
    const channelsSent = nestedObject(value, path, drift);
    if (channelsSent === null) return null;
    const rows: (readonly Cell[])[] = [];
    const others: [string, unknown][] = [];
    for (const [channel, counts] of Object.entries(channelsSent)) {
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

/** Endpoints of synchronous person search (section 4.1). */
export const personSearchEndpoints = {
  create: endpointOf("POST", "/person-search/v0/search"),
  read: endpointOf("GET", "/person-search/v0/search/{search_id}"),
};

/** Maximum length of a query in characters, and number of PIDs of a synchronous search (section 8). */
export const MAX_QUERY_LENGTH = 500;

export const MAX_SEARCH_SIZE = 100;

/** Description of an audience; its length counts characters, not UTF-16 units. */
export const searchQuery = z
  .string()
  .min(1, { error: "string_too_short" })
  .refine((query) => Array.from(query).length <= MAX_QUERY_LENGTH, { error: "string_too_long" });

/** Body of `POST /person-search/v0/search`. */
export const personSearchRequest = z.strictObject({
  query: searchQuery,
  size: z
    .int()
    .min(1, { error: "greater_than_equal" })
    .max(MAX_SEARCH_SIZE, { error: "less_than_equal" })
    .optional(),
});

/** Channels of a coverage object (section 2.4). */
export const searchChannels = ["personal_email", "professional_email", "phone", "linkedin"] as const;

/** Coverage objects by `scope`. */
const scopes = { total: "total_contact_coverage", results: "results_contact_coverage" } as const;

const searchFields = {
  search_id: text("none", "ID of the search."),
  query: text("none", "Query as normalized by the service."),
  total_count: integer("none", "Number of matching people; may exceed `result_count`."),
  result_count: integer("none", "Number of returned PIDs."),
  created_at: timestamptz("none", "When the service stored the search."),
};

const coverageFields = {
  count: integer("none", "People with this channel."),
  percent: numeric("none", "Their share in percent, 0 to 100."),
};

const searchId = { search_id: text("none", "ID of the search.") };

export const personSearch = table("person_search", {
  schema: "data",
  doc: "Synchronous person searches.",
  key: ["search_id"],
  people: "nobody",
  columns: {
    ...searchId,
    search_name: text("none", "Name of the search in the configuration."),
    ...searchFields,
  },
  hasExtra: true,
});

export const personSearchCoverage = table("person_search_coverage", {
  schema: "data",
  doc: "Contact channels of the people of a search.",
  key: ["search_id", "scope", "channel"],
  parent: "person_search",
  people: "nobody",
  columns: {
    ...searchId,
    scope: oneOf(["total", "results"], "`total`: all matching people; `results`: those returned."),
    channel: text("none", "`personal_email`, `professional_email`, `phone` or `linkedin`."),
    ...coverageFields,
  },
  hasExtra: true,
});

export const personSearchResult = table("person_search_result", {
  schema: "data",
  doc: "People returned by a search.",
  key: ["search_id", "position"],
  parent: "person_search",
  people: { pids: ["service_pid"] },
  columns: {
    ...searchId,
    ...listPosition,
    service_pid: text("direct", "PID of the person.", "required"),
  },
});

const record = flattenerOf({ fields: searchFields, lists: {} });

const coverages = Object.entries(scopes).map(([scope, member]) => ({
  scope,
  member,
  read: coverageReaderOf(searchChannels, coverageFields, member),
}));

/** Flattens a search (section 2.4) to rows of its tables. @param searchName its name in the configuration */
export function flattenPersonSearch(
  search: JsonObject,
  searchName: string,
  drift: DriftLog,
): readonly TableRows[] {
  const { results, total_contact_coverage: _, results_contact_coverage: __, ...rest } = search;
  const { object } = record.flatten(rest, null, drift);
  const [id = null, ...cells] = object.cells.map((cell) => cell ?? null);
  const read = coverages.map(({ scope, member, read: readCoverage }) => ({
    scope,
    member,
    flat: readCoverage(search[member], drift),
  }));
  const coverageRows = read.flatMap(({ scope, flat }) =>
    (flat?.rows ?? []).map((row) => [id, scope, ...row]),
  );
  const nested = read.map(({ member, flat }) => [member, flat ? flat.extra : search[member]] as const);
  const pids = readPids(results, drift);
  const extra = withNested(object.extra, { ...Object.fromEntries(nested), results: pids.misplaced });
  return [
    rowsOf(personSearch, [[id, searchName, ...cells, extraCell(extra)]]),
    rowsOf(personSearchCoverage, coverageRows),
    rowsOf(
      personSearchResult,
      pids.rows.map((row) => [id, ...row]),
    ),
  ];
}

/** Position and PID of each item of a list, and its other items by index; null if all items are PIDs. */
export function readPids(
  value: unknown,
  drift: DriftLog,
  path = "results",
): { readonly rows: readonly (readonly [Cell, string])[]; readonly misplaced: unknown } {
  if (!Array.isArray(value)) {
    if (value === undefined || value === null) return { rows: [], misplaced: null };
    drift.note("unexpected_type", path, jsonType(value));
    return { rows: [], misplaced: value };
  }
  const rows: (readonly [Cell, string])[] = [];
  const misplaced: [string, unknown][] = [];
  for (const [position, item] of (value as readonly unknown[]).entries()) {
    const pid = pidOf(item);
    if (pid !== null) rows.push([String(position), pid]);
    else {
      drift.note("unexpected_type", `${path}[]`, jsonType(item));
      misplaced.push([String(position), item]);
    }
  }
  return { rows, misplaced: misplaced.length === 0 ? null : Object.fromEntries(misplaced) };
}
