import { type RawBuilder, sql } from "kysely";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { finished, pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { to as copyTo } from "pg-copy-streams";
import { postgresTypes } from "../db/ddl.ts";
import { quoteIdentifier, type SchemaNames, tableText } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { ColumnType } from "../../schemas/field.ts";
import type { Column, PublishedSchema } from "../../schemas/table.ts";
import { collectGarbage } from "../../garbage.ts";

/** A table to publish; see the catalog of `src/publish`. */
export interface PublishableTable {
  readonly name: string;
  readonly schema: PublishedSchema;
  readonly key: readonly string[];
  readonly columns: readonly Column[];
  readonly rootKey: readonly string[];
}

/** Tables of the schema `state` that publication uses. */
export const stateTables = ["destination", "followed_table", "dirty_key", "claimed_key"] as const;

type StateTable = (typeof stateTables)[number];

export function stateTable({ names }: Session, name: StateTable): RawBuilder<unknown> {
  return sql.id(names.state, name);
}

/** A time in the years 1 to 9999; others as null, or as the nearest one where a column may not be null. */
const within = (from: string, to: string) => (value: string, isRequired: boolean) =>
  isRequired
    ? `greatest(least(${value}, ${to}), ${from})`
    : `CASE WHEN ${value} BETWEEN ${from} AND ${to} THEN ${value} END`;

/**
 * Expressions that write a value as destinations read it. Loads store only values that fit everywhere. Values written by
 * others that don't fit (NaN, infinity, years before 1, lists with null or of lists) are changed, so that they don't block
 * later batches. JSON that a destination doesn't take is its own matter.
 */
const written: Partial<Readonly<Record<ColumnType, (value: string, isRequired: boolean) => string>>> = {
  numeric: (value) => `CASE WHEN abs(${value}) < 1e18 THEN trim_scale(round(${value}, 20))::text END`,
  json: (value) => `${value}::text`,
  "text[]": (value) => {
    const flat = `ARRAY(SELECT e FROM unnest(${value}) AS e WHERE e IS NOT NULL)`;
    return `CASE WHEN array_ndims(${value}) > 1 THEN ${flat} WHEN array_position(${value}, NULL) IS NOT NULL THEN ${flat} ELSE ${value} END`;
  },
  bytes: (value) => `translate(encode(${value}, 'base64'), E'\\n', '')`,
  date: within("DATE '0001-01-01'", "DATE '9999-12-31'"),
  timestamp: within("TIMESTAMP '0001-01-01'", "TIMESTAMP '9999-12-31 23:59:59.999999'"),
  timestamptz: within("TIMESTAMPTZ '0001-01-01 00:00:00+00'", "TIMESTAMPTZ '9999-12-31 23:59:59.999999+00'"),
};

/** Expression of a column as destinations read it. */
export function writtenValue({ type, required = false }: Column, column: string): string {
  return written[type]?.(column, required) ?? column;
}

/** Query of columns as destinations read them, in the form of the files. `from` names a table `t`. */
function lineQuery(columns: PublishableTable["columns"], from: string, format: FileFormat): string {
  const list = columns.map((one) => {
    const value = writtenValue(one, `t.${quoteIdentifier(one.name)}`);
    if (one.type === "text[]" && format === "text") return `to_json(${value})::text`;
    return `${value} AS ${quoteIdentifier(one.name)}`;
  });
  if (format === "text") return `SELECT '', ${list.join(", ")} FROM ${from}`;
  return `SELECT row_to_json(r) FROM (SELECT ${list.join(", ")} FROM ${from}) AS r`;
}

/** Query of a table's rows. `condition` follows the table, named `t`. */
export function rowQuery(
  names: SchemaNames,
  table: PublishableTable,
  condition: string,
  format: FileFormat,
): string {
  return lineQuery(table.columns, `${tableText(names, table.name)} AS t ${condition}`, format);
}

/** Query of the keys in a key table. */
export function keyQuery({ rootKey, columns }: PublishableTable, keys: string, format: FileFormat): string {
  const keyed = columns.filter(({ name }) => rootKey.includes(name));
  return lineQuery(keyed, `${keys} AS t`, format);
}

/** Expressions of key columns from a jsonb array, cast to their types. */
export function typedKey(
  { columns }: PublishableTable,
  key: readonly string[],
  json: string,
): readonly string[] {
  const types = new Map(columns.map(({ name, type }) => [name, postgresTypes[type]]));
  return key.map((name, index) => `(${json} ->> ${index})::${types.get(name) ?? "text"}`);
}

export interface CopiedFiles {
  readonly files: readonly string[];
  readonly lines: number;
  readonly longestLineBytes: number;
}

/** Form of the lines: JSON objects, or COPY's text after an empty column. */
export type FileFormat = "json" | "text";

/**
 * COPY options and gzip level by form; null writes the file uncompressed. CSV with a quote that JSON never contains writes the only
 * column unchanged.
 */
const formats: Readonly<Record<FileFormat, { readonly copy: string; readonly gzip: number | null }>> = {
  json: { copy: "FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02'", gzip: 3 },
  // Read once, on the same machine: compressing costs more than it saves.
  text: { copy: "FORMAT text", gzip: null },
};

/** Uncompressed bytes per file: loads read several files in parallel. */
const FILE_BYTES = 256 * 1024 * 1024;
/** Received bytes that are worth a collection. */
const GARBAGE_BYTES = 1024 * 1024;
const NEWLINE = 0x0a;

function openFile(path: string, level: number | null) {
  const target = createWriteStream(path, { flags: "w", mode: 0o600 });
  const gzip = level === null ? null : createGzip({ level });
  const input = gzip ?? target;
  const written = gzip ? pipeline(gzip, target) : finished(target);
  // A full disk surfaces at the next write or at the end; until then, the rejection must count as handled.
  written.catch(() => {});
  let bytes = 0;
  return {
    isFull: () => bytes >= FILE_BYTES,
    async write(chunk: Buffer): Promise<void> {
      bytes += chunk.length;
      // A failed file never drains.
      if (!input.write(chunk)) await Promise.race([once(input, "drain"), written]);
    },
    async close(): Promise<void> {
      input.end();
      await written;
    },
  };
}

/** Streams the rows of a query into files `PREFIX-0`, …, one row per line. */
export async function copyToFiles(
  session: Session,
  query: string,
  prefix: string,
  format: FileFormat,
): Promise<CopiedFiles> {
  const { copy, gzip } = formats[format];
  const stream = session.client.query(copyTo(`COPY (${query}) TO STDOUT WITH (${copy})`));
  const files: string[] = [];
  let [lines, bytes, lineBytes, longestLineBytes] = [0, 0, 0, 0];
  let file: ReturnType<typeof openFile> | null = null;
  let failure: unknown = null;
  const next = () => {
    const path = `${prefix}-${files.length}${gzip === null ? "" : ".gz"}`;
    files.push(path);
    return openFile(path, gzip);
  };
  for await (const chunk of stream) {
    // The connection can be reused only after the COPY is read to its end.
    if (failure !== null) continue;
    const received: Buffer = chunk;
    let start = 0;
    for (let at = received.indexOf(NEWLINE); at >= 0; at = received.indexOf(NEWLINE, start)) {
      longestLineBytes = Math.max(longestLineBytes, lineBytes + at + 1 - start);
      lines += 1;
      lineBytes = 0;
      start = at + 1;
    }
    lineBytes += received.length - start;
    bytes += received.length;
    try {
      // A file ends with a line.
      if (start > 0) {
        file ??= next();
        await file.write(received.subarray(0, start));
        if (file.isFull()) {
          await file.close();
          file = null;
        }
      }
      if (start < received.length) {
        file ??= next();
        await file.write(received.subarray(start));
      }
    } catch (error) {
      failure = error;
    }
  }
  if (failure !== null) throw failure;
  await file?.close();
  // V8 counts few of the bytes received, and runs no collection while the destination works.
  if (bytes > GARBAGE_BYTES) collectGarbage();
  return { files, lines, longestLineBytes };
}

/** Rows per range; a snapshot is held only while one range is read. */
const RANGE_ROWS = 200_000;

/** Last key of a range, as a JSON array; null at the end of the table. */
export type RangeEnd = string | null;

export interface Range extends CopiedFiles {
  readonly end: RangeEnd;
}

interface RangeOptions {
  /** End of the range before; null for the first one. */
  readonly after: RangeEnd;
  /** Prefix of the files' paths. */
  readonly prefix: string;
  readonly format: FileFormat;
}

/**
 * Copies the next range of a table by key, in the caller's REPEATABLE READ transaction. Passes bounds as settings, because
 * keys of people must not appear in statement texts.
 */
export async function copyRange(
  session: Session,
  table: PublishableTable,
  { after, prefix, format }: RangeOptions,
): Promise<Range> {
  const copy = (where: string) =>
    copyToFiles(session, rowQuery(session.names, table, where, format), prefix, format);
  if (table.key.length === 0) return { ...(await copy("")), end: null };
  const key = table.key.map((name) => `t.${quoteIdentifier(name)}`).join(", ");
  const from = after === null ? "true" : `(${key}) > (${await bound(session, table, "from", after)})`;
  const [end = null] = await session.pluck<string>(
    sql.raw(
      // The inner query reads the index only; its rows would otherwise all be written as JSON.
      `SELECT jsonb_build_array(${key})::text FROM (SELECT ${key} FROM ${tableText(session.names, table.name)} AS t
       WHERE ${from} ORDER BY ${key} OFFSET ${RANGE_ROWS - 1} LIMIT 1) AS t`,
    ),
  );
  const to = end === null ? "true" : `(${key}) <= (${await bound(session, table, "to", end)})`;
  return { ...(await copy(`WHERE ${from} AND ${to}`)), end };
}

/** Stores a key as a setting of the transaction; returns its columns as text. */
async function bound(
  session: Session,
  table: PublishableTable,
  name: "from" | "to",
  key: string,
): Promise<string> {
  await session.rows(sql`SELECT set_config(${`person_etl.${name}`}, ${key}, true)`);
  return typedKey(table, table.key, `current_setting('person_etl.${name}')::jsonb`).join(", ");
}
