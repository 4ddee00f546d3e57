import { type ColumnType, numeric, text, timestamptz } from "../field.ts";
import { columnsOf, withJoins } from "../table.ts";
import { type Dialect, quoted, type View } from "./view.ts";

/** Types that key columns keep; any other is text. */
export type KeyType = Extract<ColumnType, "integer" | "text" | "uuid" | "date" | "timestamp" | "timestamptz">;

export interface KeyColumn {
  readonly name: string;
  readonly type: KeyType;
}

const PREFIX = "link_";
/** Longest name of a relation in Postgres, in bytes. */
const LONGEST = 63;
/** Columns after those of the key. */
const MATCH = ["service_pid", "match_score", "matched_at"];

/** Returns the name of an input's view; null if it would be too long for Postgres. */
export function linkViewName(input: string): string | null {
  const name = `${PREFIX}${input}`;
  return name.length > LONGEST ? null : name;
}

export const inputOfLinkView = (name: string): string => name.slice(PREFIX.length);

/** Name of a key column that every engine accepts, and that no other column of the view has. */
export function linkColumnName(name: string): string {
  const plain = name.replaceAll(/\W/g, "_");
  return MATCH.includes(plain.toLowerCase()) || !/^[A-Za-z_]/.test(plain) ? `key_${plain}` : plain;
}

const DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}";
const TIME = "[ T][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?";

/** Texts that Postgres can cast; keys of an earlier type may have others. */
const patterns: Readonly<Record<Exclude<KeyType, "text">, string>> = {
  integer: "^-?([0-9]{1,18}|[1-8][0-9]{18})$",
  uuid: "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
  date: `^${DAY}$`,
  timestamp: `^${DAY}${TIME}$`,
  timestamptz: `^${DAY}${TIME}(Z|[+-][0-9]{2}(:?[0-9]{2})?)$`,
};

const types: Readonly<Record<Dialect, Readonly<Record<Exclude<KeyType, "text">, string>>>> = {
  postgres: {
    integer: "bigint",
    uuid: "uuid",
    date: "date",
    timestamp: "timestamp without time zone",
    timestamptz: "timestamp with time zone",
  },
  bigquery: {
    integer: "INT64",
    uuid: "STRING",
    date: "DATE",
    timestamp: "DATETIME",
    timestamptz: "TIMESTAMP",
  },
  duckdb: {
    integer: "BIGINT",
    uuid: "UUID",
    date: "DATE",
    timestamp: "TIMESTAMP",
    timestamptz: "TIMESTAMPTZ",
  },
  spark: {
    integer: "BIGINT",
    uuid: "STRING",
    date: "DATE",
    timestamp: "TIMESTAMP_NTZ",
    timestamptz: "TIMESTAMP",
  },
};

/** Text of one column of a composite key. */
const partOf: Readonly<Record<Dialect, (index: number) => string>> = {
  postgres: (index) => `CAST(source_key AS json) ->> ${index}`,
  bigquery: (index) => `json_value(source_key, '$[${index}]')`,
  duckdb: (index) => `json_extract_string(source_key, '$[${index}]')`,
  spark: (index) => `get_json_object(source_key, '$[${index}]')`,
};

/** Text of a key column; null in rows whose key had another form. */
function textOf(dialect: Dialect, index: number, width: number): string {
  return width === 1 ? "source_key" : `(CASE WHEN source_key LIKE '["%' THEN ${partOf[dialect](index)} END)`;
}

/** The text as a value of the type; null if it is none. */
function typed(dialect: Dialect, text: string, type: KeyType): string {
  if (type === "text") return text;
  const target = types[dialect][type];
  if (dialect === "bigquery") return `SAFE_CAST(${text} AS ${target})`;
  if (dialect === "duckdb" || dialect === "spark") return `TRY_CAST(${text} AS ${target})`;
  return `CASE WHEN ${text} ~ '${patterns[type]}' THEN CAST(${text} AS ${target}) END`;
}

/** Declares the view of an input's matches under its own key. @param key columns by the names of the view, in order */
export function linkView(input: string, key: readonly KeyColumn[]): View {
  const view: View = {
    name: `${PREFIX}${input}`,
    schema: "data",
    doc: `Best current match of each row of the input ${input}, under the input's own key: identity_link with the types of the key's columns.`,
    columns: [
      ...key.map(({ name, type }) => {
        return {
          name,
          type,
          pii: "direct",
          doc: `Key of the row in the input ${input}.`,
          required: false,
        } as const;
      }),
      ...columnsOf({
        service_pid: text("direct", "PID of the match."),
        match_score: numeric(
          "none",
          "Score of the match, in points; compare it with other scores of the same job only.",
        ),
        matched_at: timestamptz("none", "When the row was last matched."),
      }),
    ],
    reads: ["identity_link"],
    select: (dialect, ref) => {
      const columns = key.map(({ name, type }, index) => {
        return `${typed(dialect, textOf(dialect, index, key.length), type)} AS ${quoted(dialect, name)}`;
      });
      return `SELECT ${[...columns, ...MATCH].join(",\n  ")}\nFROM ${ref("identity_link")} WHERE source = '${input}'`;
    },
  };
  return { ...view, columns: withJoins(view) };
}
