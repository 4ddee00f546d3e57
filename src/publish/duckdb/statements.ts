import type { Catalog, PublishedTable, StagedBatch, StagedFiles, TableChange } from "../destination.ts";
import { type DuckSession, quoteName, quoteText, type TextRow } from "./session.ts";
import type { ColumnType } from "../../schemas/field.ts";
import type { Column, PublishedSchema } from "../../schemas/table.ts";

interface DuckType {
  readonly type: string;
  /** Expression that converts the text read to the column's type; a cast if absent. */
  readonly convert?: (value: string) => string;
  /** Expression of a value's text for the hash of a row; a cast if absent. */
  readonly hashed?: (value: string) => string;
}

export const duckTypes: Readonly<Record<ColumnType, DuckType>> = {
  text: { type: "VARCHAR", convert: unescape },
  integer: { type: "BIGINT" },
  position: { type: "INTEGER" },
  numeric: {
    type: "DECIMAL(38,20)",
    convert: toDecimal,
    hashed: (value) => `rtrim(rtrim(${value}::VARCHAR, '0'), '.')`,
  },
  boolean: { type: "BOOLEAN" },
  date: { type: "DATE", hashed: (value) => `date_diff('day', DATE '1970-01-01', ${value})::VARCHAR` },
  timestamptz: { type: "TIMESTAMPTZ", hashed: (value) => `epoch_us(${value})::VARCHAR` },
  timestamp: { type: "TIMESTAMP", hashed: (value) => `epoch_us(${value})::VARCHAR` },
  json: { type: "JSON", convert: (value) => `CAST(${unescape(value)} AS JSON)` },
  uuid: { type: "UUID" },
  "text[]": {
    type: "VARCHAR[]",
    convert: (value) => `from_json_strict(${unescape(value)}, '["VARCHAR"]')`,
    hashed: (value) => `coalesce(array_to_string(${value}, chr(1)), '')`,
  },
  bytes: {
    type: "BLOB",
    convert: (value) => `from_base64(${value})`,
    hashed: (value) => `lower(hex(${value}))`,
  },
};

/** Expression that converts a staged column, a text, to its declared type. */
function convertStaged(type: ColumnType, value: string): string {
  const { type: target, convert } = duckTypes[type];
  return convert ? convert(value) : `CAST(${value} AS ${target})`;
}

/** Text of a column's value for the hash of a row. */
function hashedText(type: ColumnType, column: string): string {
  return duckTypes[type].hashed?.(column) ?? `${column}::VARCHAR`;
}

/** Characters that COPY escapes, by the letter after the backslash. */
const escaped = { b: 8, t: 9, n: 10, v: 11, f: 12, r: 13 };

/** Removes the backslashes of COPY's text format. NUL, which no text of Postgres contains, stands for escaped ones meanwhile. */
function unescape(value: string): string {
  const marked = `replace(${value}, '\\\\', chr(0))`;
  const replaced = Object.entries(escaped).reduce(
    (text, [letter, code]) => `replace(${text}, '\\${letter}', chr(${code}))`,
    marked,
  );
  return `CASE WHEN contains(${value}, '\\') THEN replace(${replaced}, chr(0), '\\') ELSE ${value} END`;
}

/** DuckDB casts text to wide decimals a hundred times more slowly than to those of 18 digits, which most numbers have. */
function toDecimal(value: string): string {
  const digits = (part: number) => `length(split_part(${value}, '.', ${part}))`;
  return `CASE WHEN ${digits(1)} <= 10 AND ${digits(2)} <= 8 THEN CAST(CAST(${value} AS DECIMAL(18,8)) AS DECIMAL(38,20))
    ELSE CAST(${value} AS DECIMAL(38,20)) END`;
}

export type SchemaNames = Readonly<Record<PublishedSchema, string>>;

/** Qualified name of a table or view, quoted. */
function nameOf(
  schemas: SchemaNames,
  table: { readonly schema: PublishedSchema; readonly name: string },
): string {
  return `${quoteName(schemas[table.schema])}.${quoteName(table.name)}`;
}

/** Creates the program's own schema with its state row. */
export async function prepare(session: DuckSession): Promise<void> {
  await session.run("CREATE SCHEMA IF NOT EXISTS person_etl");
  await session.run(
    `CREATE TABLE IF NOT EXISTS person_etl.state
      (number BIGINT, id VARCHAR, catalog VARCHAR, released_id VARCHAR, must_purge BOOLEAN)`,
  );
  await session.run("ALTER TABLE person_etl.state ADD COLUMN IF NOT EXISTS rewritten_bytes BIGINT");
  await session.run("ALTER TABLE person_etl.state ADD COLUMN IF NOT EXISTS applying VARCHAR");
  await session.run(
    "INSERT INTO person_etl.state (must_purge) SELECT false WHERE NOT EXISTS (SELECT 1 FROM person_etl.state)",
  );
}

/** True if the file was written by a DuckDB destination. */
export async function hasState(session: DuckSession): Promise<boolean> {
  const found = await session.rows(
    "SELECT 'yes' AS found FROM duckdb_tables() WHERE schema_name = 'person_etl' AND table_name = 'state'",
  );
  return found.length > 0;
}

export async function readState(session: DuckSession): Promise<TextRow> {
  const [state] = await session.rows(
    "SELECT number::VARCHAR AS number, id, catalog, released_id, must_purge::VARCHAR AS must_purge, applying, rewritten_bytes::VARCHAR AS rewritten_bytes FROM person_etl.state",
  );
  return state ?? {};
}

/** Creates schemas, tables, added columns, comments and views. */
export function catalogStatements(
  { tables, views, dropped }: Catalog,
  schemas: SchemaNames,
): readonly string[] {
  const named = new Map([...tables, ...views].map((entry) => [entry.name, nameOf(schemas, entry)]));
  const ref = (name: string) => named.get(name) ?? quoteName(name);
  return [
    ...new Set(Object.values(schemas).map((schema) => `CREATE SCHEMA IF NOT EXISTS ${quoteName(schema)}`)),
    ...dropped.map((table) => `DROP TABLE IF EXISTS ${nameOf(schemas, table)}`),
    ...tables.flatMap((table) => tableStatements(table, ref(table.name))),
    ...views.flatMap((view) => [
      `CREATE OR REPLACE VIEW ${ref(view.name)} AS ${view.select("duckdb", ref)}`,
      `COMMENT ON VIEW ${ref(view.name)} IS ${quoteText(view.doc)}`,
      ...columnComments(view.columns, ref(view.name)),
    ]),
  ];
}

function tableStatements(table: PublishedTable, name: string): readonly string[] {
  const typed = table.columns.map((c) => `${quoteName(c.name)} ${duckTypes[c.type].type}`);
  // The key is only documented: the index of a constraint would slow down DELETE and INSERT many times.
  const key = table.key.length > 0 ? ` Key: ${table.key.join(", ")}.` : "";
  return [
    `CREATE TABLE IF NOT EXISTS ${name} (${typed.join(", ")})`,
    ...typed.map((column) => `ALTER TABLE ${name} ADD COLUMN IF NOT EXISTS ${column}`),
    `COMMENT ON TABLE ${name} IS ${quoteText(`${table.doc}${key}`)}`,
    ...columnComments(table.columns, name),
  ];
}

function columnComments(columns: readonly Column[], name: string): readonly string[] {
  return columns.map(
    (c) => `COMMENT ON COLUMN ${name}.${quoteName(c.name)} IS ${quoteText(`${c.doc} pii: ${c.pii}`)}`,
  );
}

export type StagedTable = Pick<StagedFiles, "table" | "content" | "files" | "longestLineBytes">;

/** Prefix of tables that are loaded to replace others. */
const NEW = "new of ";

const newOf = (table: PublishedTable): PublishedTable => ({ ...table, name: `${NEW}${table.name}` });

/** Loads files of a whole table into a new one, which the commit of the batch puts in its place. */
export function loadStatements(staged: StagedFiles, schemas: SchemaNames): readonly string[] {
  const { table, part } = staged;
  const name = nameOf(schemas, newOf(table));
  return [...(part === 0 ? tableStatements(table, name) : []), insertStatement([staged], table, name)];
}

/** Finds the tables left by unfinished attempts. */
export async function loadedTables(session: DuckSession): Promise<readonly string[]> {
  const rows = await session.rows(
    `SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = current_database() AND starts_with(table_name, ${quoteText(NEW)})`,
  );
  return rows.map((row) => `${quoteName(row["schema_name"] ?? "")}.${quoteName(row["table_name"] ?? "")}`);
}

/** Bytes of the buffer that lines are read into; longer lines enlarge it. */
const LINE_BUFFER_BYTES = 1024 * 1024;

/** Query of a table's staged files, in the columns' own types. */
export function stagedRows(
  staged: readonly StagedTable[],
  { name, columns }: PublishedTable,
  content: StagedFiles["content"],
) {
  const own = staged.filter((entry) => entry.table.name === name && entry.content === content);
  const values = columns.map((c) => `${convertStaged(c.type, quoteName(c.name))} AS ${quoteName(c.name)}`);
  const read = ["start of line", ...columns.map((c) => c.name)].map((c) => `${quoteText(c)}: 'VARCHAR'`);
  const files = own.flatMap((entry) => entry.files).map(quoteText);
  const longest = Math.max(LINE_BUFFER_BYTES, ...own.map((entry) => entry.longestLineBytes + 1024));
  return `SELECT ${values.join(", ")} FROM read_csv([${files.join(", ")}], auto_detect = false, header = false, columns = {${read.join(", ")}},
     delim = '\t', quote = '', escape = '', nullstr = '\\N', new_line = '\\n', compression = 'none', max_line_size = ${longest}, buffer_size = ${longest})`;
}

function insertStatement(staged: readonly StagedTable[], table: PublishedTable, name: string): string {
  const columns = table.columns.map((c) => quoteName(c.name)).join(", ");
  return `INSERT INTO ${name} (${columns}) ${stagedRows(staged, table, "rows")}`;
}

/** Moves the position; `erases` has the next publication to readers rewrite the file. */
export function positionStatement({ number, id }: StagedBatch, erases: boolean): string {
  const purges = erases ? "true" : "must_purge";
  return `UPDATE person_etl.state SET number = ${number}, id = ${quoteText(id)}, must_purge = ${purges}, applying = NULL`;
}

/** Deletes the rows of a table's staged keys. */
export function deleteStatement(
  { table }: TableChange,
  staged: readonly StagedTable[],
  schemas: SchemaNames,
): string {
  const key = table.rootKey.map(quoteName).join(", ");
  const keys = { ...table, columns: table.columns.filter((c) => table.rootKey.includes(c.name)) };
  return `DELETE FROM ${nameOf(schemas, table)} WHERE (${key}) IN (SELECT (${key}) FROM (${stagedRows(staged, keys, "keys")}))`;
}

/** Puts the loaded table in the place of the old one. */
export function swapStatements({ table, hasRows }: TableChange, schemas: SchemaNames): readonly string[] {
  const name = nameOf(schemas, table);
  const loaded = `ALTER TABLE ${nameOf(schemas, newOf(table))} RENAME TO ${quoteName(table.name)}`;
  // A table that is dropped takes no memory; deleting all of its rows does.
  return [`DROP TABLE ${name}`, ...(hasRows ? [loaded] : tableStatements(table, name))];
}

/** Inserts the staged rows of a table. */
export function insertStatements(
  { table, hasRows }: TableChange,
  staged: readonly StagedTable[],
  schemas: SchemaNames,
): readonly string[] {
  return hasRows ? [insertStatement(staged, table, nameOf(schemas, table))] : [];
}

/** Counts and hashes a range of a table's rows. */
export function measureQuery(table: PublishedTable, schemas: SchemaNames, range: string): string {
  return `${measureOf(table, nameOf(schemas, table))} WHERE ${range}`;
}

/** Counts and hashes the rows of `from`, which has the columns of a table. */
export function measureOf(table: PublishedTable, from: string): string {
  const texts = table.columns.map((c) => `coalesce(${hashedText(c.type, quoteName(c.name))}, chr(2))`);
  return `SELECT count(*)::VARCHAR AS rows, coalesce(sum(('0x' || substr(md5(concat_ws(chr(1), ${texts.join(", ")})), 1, 15))::BIGINT), 0)::VARCHAR AS hash
     FROM ${from}`;
}
