import type { DuckDBConnection } from "@duckdb/node-api";
import { Readable } from "node:stream";
import { messageOf } from "../../errors.ts";
import { quoteIdentifier, quoteLiteral, quoteQualified } from "../db/names.ts";
import type { InputEngine, TextLists } from "./engine.ts";
import type { FileColumn } from "./files.ts";
import { type InputColumn, relationText, type RowColumn, SAMPLE_LIMIT_MS } from "./input.ts";
import { collectGarbage } from "../../garbage.ts";

/** Megabytes of DuckDB, with which the process stays below 256; larger work spills into the connection's folder. */
export const MEMORY_MB = 64;
/** Most megabytes for what can't spill enough, such as ordering a million JSON records. */
const MOST_MEMORY_MB = 512;

/** Postgres's names of types, by which keys and findings are chosen, by the beginning of DuckDB's. */
const TYPE_NAMES: readonly (readonly [RegExp, string])[] = [
  [/^VARCHAR$/u, "text"],
  [/\[\d*\]$|^(?:STRUCT|MAP|UNION|JSON|VARIANT)/u, "json"],
  [/^(?:BIGINT|U?INTEGER|U?SMALLINT|U?TINYINT)$/u, "bigint"],
  [/^(?:UBIGINT|U?HUGEINT|BIGNUM|DECIMAL.*)$/u, "numeric"],
  [/^(?:FLOAT|DOUBLE)$/u, "double precision"],
  [/^TIMESTAMP WITH TIME ZONE$/u, "timestamp with time zone"],
  [/^TIMESTAMP/u, "timestamp without time zone"],
  [/^BLOB$/u, "bytea"],
];

/** Column of a DuckDB table, with its type in Postgres's words. */
export function columnOf({ name, type }: FileColumn): InputColumn {
  const isArray = type.endsWith("[]");
  const element = isArray ? type.slice(0, -2) : type;
  const typeName = TYPE_NAMES.find(([pattern]) => pattern.test(element))?.[1] ?? element.toLowerCase();
  return { name, typeName, isArray };
}

/** Temporary table of a list; as a literal, a list of thousands takes much memory. */
const listTable = (name: string) => `temp.main.${quoteIdentifier(name)}`;

const ESCAPES = { "'\\'": "'\\\\'", "chr(9)": "'\\t'", "chr(10)": "'\\n'", "chr(13)": "'\\r'" };

/** Line of a row in the text format of COPY. */
function lineOf(columns: readonly RowColumn[]): string {
  const cells = columns.map(({ name, type }) => {
    const element = `'"' || replace(replace(e, '\\', '\\\\'), '"', '\\"') || '"'`;
    const list = `'{' || array_to_string([${element} FOR e IN ${name}], ',') || '}'`;
    const escaped = Object.entries(ESCAPES).reduce(
      (text, [from, to]) => `replace(${text}, ${from}, ${to})`,
      type === "list" ? list : `CAST(${name} AS VARCHAR)`,
    );
    return `coalesce(${escaped}, '\\N')`;
  });
  return `concat_ws(chr(9), ${cells.join(", ")}) || chr(10)`;
}

/** Bytes of rows after which the memory of their chunks is freed. */
const GARBAGE_BYTES = 4 * 1024 * 1024;

export const isOutOfMemory = (error: unknown) => messageOf(error).startsWith("Out of Memory");

const OF_SQL = /^(?:Binder|Catalog|Parser) Error/u;

/** Throws an error of SQL without the statement, which DuckDB repeats. */
function withoutStatement(error: unknown): never {
  const [first = ""] = messageOf(error).split("\n");
  throw OF_SQL.test(first) ? new Error(first, { cause: error }) : error;
}

/** Engine of an open DuckDB. */
export function engineOf(session: DuckDBConnection): InputEngine {
  // Prepared, because several statements can't be.
  const prepare = (text: string) => session.prepare(text).catch(withoutStatement);
  async function stage(lists: TextLists): Promise<void> {
    for (const [name, texts] of Object.entries(lists)) {
      await session.run(`CREATE OR REPLACE TEMP TABLE ${listTable(name)} (text VARCHAR)`);
      const appender = await session.createAppender(name, "main", "temp");
      for (const [i, text] of texts.entries()) {
        appender.appendVarchar(text);
        appender.endRow();
        if (i % 10_000 === 0) appender.flushSync();
      }
      appender.closeSync();
    }
  }
  /** Runs work that has no effect if it fails; with more memory if DuckDB runs out of it. */
  async function withMemory<Result>(work: () => Promise<Result>): Promise<Result> {
    for (let megabytes = MEMORY_MB + 32; ; megabytes += 32) {
      try {
        return await work();
      } catch (error) {
        if (!isOutOfMemory(error) || megabytes > MOST_MEMORY_MB) throw error;
        await session.run(`SET memory_limit = '${megabytes}MB'`);
      }
    }
  }
  async function rows<Row>(text: string, lists: TextLists = {}): Promise<readonly Row[]> {
    await stage(lists);
    const statement = await prepare(text);
    const reader = await withMemory(() => statement.runAndReadAll());
    return reader.getRowObjectsJson() as readonly unknown[] as readonly Row[]; // as selected
  }
  async function* lines(text: string, lists: TextLists): AsyncGenerator<Buffer> {
    await stage(lists);
    const statement = await prepare(text);
    const started = async () => {
      const result = await statement.stream();
      return { result, first: await result.fetchChunk() };
    };
    const { result, first } = await withMemory(started);
    let bytes = 0;
    for (let chunk = first; chunk && chunk.rowCount > 0; chunk = await result.fetchChunk()) {
      // Postgres can't store NUL.
      const part = Buffer.from(chunk.getColumnValues(0).join("").replaceAll("\0", "\uFFFD"));
      yield part;
      bytes += part.length;
      if (bytes < GARBAGE_BYTES) continue;
      // V8 doesn't count the memory of chunks.
      collectGarbage();
      bytes = 0;
    }
  }
  return {
    name: "duckdb",
    quoteIdentifier,
    quoteLiteral,
    quoteQualified,
    text(value, typeName) {
      const text = `CAST(${value} AS VARCHAR)`;
      if (typeName === "bytea") return `'\\x' || lower(hex(${value}))`;
      if (typeName === "json") return `CAST(to_json(${value}) AS VARCHAR)`;
      const hasFraction = typeName === "numeric" || typeName === "double precision";
      return hasFraction ? `regexp_replace(${text}, '^(-?\\d+)(?:(\\.\\d*[1-9])0*|\\.0*)$', '\\1\\2')` : text;
    },
    value: (text, typeName) =>
      typeName === "bytea"
        ? `CASE WHEN regexp_full_match(${text}, '(?i)\\\\x([0-9a-f]{2})*') THEN unhex(substr(${text}, 3)) END`
        : `TRY_CAST(${text} AS ${typeName})`,
    list: (list, element, { where, limit } = {}) =>
      `[${element} FOR e IN ${limit === undefined ? list : `${list}[:${limit}]`}${where === undefined ? "" : ` IF ${where}`}]`,
    json: (value) => `CAST(to_json(${value}) AS VARCHAR)`,
    hash: (texts) => `'\\x' || md5(CAST(json_array(${texts.join(", ")}) AS VARCHAR))`,
    isIn: (text, name) => `${text} IN (SELECT text FROM ${listTable(name)})`,
    hasAny: (list, element, name) =>
      `list_has_any([${element} FOR e IN ${list}], (SELECT coalesce(list(text), []) FROM ${listTable(name)}))`,
    single: (name) => `(SELECT text FROM ${listTable(name)})`,
    shuffled: (key) => `hash(${key})`,
    async describe(input) {
      const found = await rows<{ readonly column_name: string; readonly column_type: string }>(
        `DESCRIBE SELECT input_row.* FROM ${relationText(input, quoteQualified)}`,
      );
      return found.map(({ column_name: name, column_type: type }) => columnOf({ name, type }));
    },
    validate: (text) => rows(`EXPLAIN ${text}`),
    hintFor: (error) => (OF_SQL.test(messageOf(error)) ? "Correct the SQL, or the name of the table." : null),
    rows,
    async rowsInTime(text) {
      const late = setTimeout(() => session.interrupt(), SAMPLE_LIMIT_MS);
      try {
        return await rows(text);
      } catch (error) {
        if (messageOf(error).startsWith("INTERRUPT")) return null;
        throw error;
      } finally {
        clearTimeout(late);
      }
    },
    copyText: (text, columns, lists) =>
      Readable.from(lines(`SELECT ${lineOf(columns)} FROM (${text}) AS r`, lists), { objectMode: false }),
  };
}
