import { createHash, randomBytes } from "node:crypto";
import { glob, mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import {
  isMissingFile,
  openStorage,
  openStorageAgent,
  type Storage,
  StorageError,
} from "../../object-store.ts";
import { describeThisProcess, ownerOfFile, ownerPrefix, stateOfProcess } from "../../process-state.ts";
import { StopRunError } from "../../errors.ts";
import { quoteIdentifier, quoteLiteral } from "../db/names.ts";
import { columnsHint } from "./columns.ts";
import type { DuckDbConnection } from "./input.ts";

/** A file of an input: a local one, or the copy of a remote one. */
export interface InputFile {
  /** Name for messages, as in the configuration. */
  readonly name: string;
  readonly path: string;
  /** Changes with its content. */
  readonly version: string;
  readonly bytes: number;
}

/** A column with its type in DuckDB's words. */
export interface FileColumn {
  readonly name: string;
  readonly type: string;
}

/** Fault of files, and the remedy. */
export interface FileFault {
  /** Without a period. */
  readonly message: string;
  readonly hint: string;
}

/** Files as a FROM item, with their columns. Values of CSV and JSON are text, or lists of texts. */
interface FileTable {
  readonly from: string;
  /** True for a database, whose tables are inputs. */
  readonly isDatabase?: true;
  /** True if reading takes so much memory that too little is left to sort the rows. */
  readonly isLarge?: true;
  readonly columns: readonly FileColumn[];
  readonly faults: readonly FileFault[];
}

/** Runs a query whose columns are all text. */
type Query = (text: string) => Promise<readonly Readonly<Record<string, string | null>>[]>;

const EXTENSION = /\.(csv|tsv|txt|parquet|json|jsonl|ndjson|duckdb)(?:\.(?:gz|zst))?$/iu;
const withoutQuery = (place: string) => (isRemote(place) ? place.replace(/[?#].*$/u, "") : place);
const isRemote = (place: string) => /^(?:s3|gs|https?):\/\//u.test(place);
const isPattern = (place: string) => /[*?]/u.test(place) && !/^https?:/u.test(place);

/** Milliseconds for which remote files aren't looked for again: all readings of a job see the same ones. */
const LISTED_MS = 60_000;

/** Opens the folder of a connection, with copies of remote files and DuckDB's temporary files. */
export function openFileFolder(connection: DuckDbConnection) {
  const { folder, scratch } = connection.places();
  const agent = openStorageAgent();
  let own: Promise<string> | null = null;
  const listed = new Map<
    string,
    { readonly untilMs: number; readonly files: Promise<readonly InputFile[]> }
  >();
  const storage = (): Storage => openStorage({ localFolder: null, ...connection }, {}, agent);

  async function create(): Promise<string> {
    const ourselves = await describeThisProcess();
    await mkdir(scratch, { recursive: true, mode: 0o700 });
    for (const name of await readdir(scratch)) {
      const isOver = (await stateOfProcess(ownerOfFile(name), ourselves)) === "ended";
      if (isOver) await rm(join(scratch, name), { recursive: true, force: true });
    }
    const path = join(scratch, `${ownerPrefix(ourselves)}${randomBytes(6).toString("hex")}`);
    await mkdir(path, { mode: 0o700 });
    return path;
  }
  const ownFolder = () => (own ??= create());

  /** Copies a remote file, unless this version of it is here already. */
  async function copyOf(address: string, version: string | null): Promise<InputFile> {
    const identity = JSON.stringify([address, version ?? randomBytes(8).toString("hex")]);
    const id = createHash("sha256").update(identity).digest("hex");
    const name = withoutQuery(address);
    const path = join(await ownFolder(), `${id}${EXTENSION.exec(name)?.[0] ?? ""}`);
    const size = async () => (await stat(path).catch(() => null))?.size;
    if ((await size()) === undefined) {
      await storage().download(address, `${path}.part`);
      await rename(`${path}.part`, path);
    }
    return { name, path, version: id, bytes: (await size()) ?? 0 };
  }

  async function findRemote(place: string): Promise<readonly InputFile[]> {
    if (!isPattern(place)) {
      try {
        return [await copyOf(place, await storage().readVersion(place).catch(unlessRefused))];
      } catch (error) {
        if (isMissingFile(error)) return [];
        throw error;
      }
    }
    const above = place.slice(0, place.slice(0, place.search(/[*?]/u)).lastIndexOf("/"));
    const objects = (await storage().list(above)).filter(({ address }) => patternOf(place).test(address));
    const files: InputFile[] = [];
    for (const { address, version } of objects.toSorted((a, b) => (a.address < b.address ? -1 : 1)))
      files.push(await copyOf(address, version));
    return files;
  }

  return {
    path: ownFolder,
    /** Finds the files of a path, an address or a pattern, in order; empty if there are none. */
    async find(place: string): Promise<readonly InputFile[]> {
      if (!isRemote(place)) return findLocal(place, folder);
      const known = listed.get(place);
      if (known && known.untilMs > Date.now()) return known.files;
      const files = findRemote(place);
      listed.set(place, { untilMs: Date.now() + LISTED_MS, files });
      files.catch(() => listed.delete(place));
      return files;
    },
    /** Throws if local files changed since they were found: what was read of them may be torn. */
    async verify(place: string, files: readonly InputFile[]): Promise<void> {
      if (isRemote(place)) return;
      const now = await findLocal(place, folder);
      const changed = files.find(({ version }, i) => now[i]?.version !== version) ?? now[files.length];
      if (changed === undefined) return;
      throw new StopRunError(
        "input_changed",
        `${changed.name} changed while it was read, so nothing of it was used. Run again when it is complete; write new files under another name, and rename them.`,
      );
    },
    async close(): Promise<void> {
      if (own) await rm(await own, { recursive: true, force: true });
      await agent.close();
    },
  };
}

/** Null for a server that answers no HEAD, and so names no version. */
function unlessRefused(error: unknown): null {
  if (error instanceof StorageError && [400, 403, 405, 501].includes(error.status)) return null;
  throw error;
}

const literally = (text: string) => text.replaceAll(/[\\^$.*+?()[\]{}|/-]/gu, "\\$&");

/** Matches the objects of a pattern: `*` and `?` stay in a folder, `**` doesn't. */
function patternOf(place: string): RegExp {
  const parts = place.split(/(\*\*\/?|\*|\?)/u).map((part) => {
    if (part.startsWith("**")) return ".*";
    return part === "*" ? "[^/]*" : part === "?" ? "[^/]" : literally(part);
  });
  return new RegExp(`^${parts.join("")}$`, "u");
}

async function findLocal(place: string, folder: string): Promise<readonly InputFile[]> {
  const isFile = (await stat(resolve(folder, place)).catch(() => null))?.isFile() ?? false;
  const names: string[] = isFile ? [place] : [];
  if (!isFile) for await (const name of glob(place, { cwd: folder })) names.push(name);
  const files: InputFile[] = [];
  for (const name of names.toSorted()) {
    const path = resolve(folder, name);
    const found = await stat(path, { bigint: true }).catch(() => null);
    if (!found?.isFile()) continue;
    const version = [path, found.ino, found.size, found.mtimeNs].join(":");
    files.push({ name, path, version, bytes: Number(found.size) });
  }
  return files;
}

/** Files to describe. */
interface Described {
  readonly place: string;
  /** Folder at which relative paths start. */
  readonly folder: string;
  readonly files: readonly InputFile[];
  /** Columns that every file must have, with one type. */
  readonly needed: readonly string[];
}

/** Describes files by their first lines or their schemas. */
export async function describeFiles(described: Described, query: Query): Promise<FileTable> {
  const { place, files, folder } = described;
  const [first] = files;
  if (!first) {
    const found = await stat(resolve(folder, place)).catch(() => null);
    if (found?.isDirectory()) {
      const pattern = `${place}/*${EXTENSION.exec(place)?.[0] ?? ".csv"}`;
      return unusable(`${place} is a folder`, `Write a pattern for its files: ${pattern}.`);
    }
    const hint =
      "Correct the path; relative ones start at the folder of the configuration. A folder needs a pattern: leads/*.csv.";
    return unusable(`no file matches ${withoutQuery(place)}`, hint);
  }
  const empty = files.find(({ bytes }) => bytes === 0);
  if (empty) return unusable(`${empty.name} has 0 bytes`, "Write it again, or remove it.");
  const format = (EXTENSION.exec(first.path)?.[1] ?? "duckdb").toLowerCase();
  if (format === "duckdb") return { from: "", columns: [], faults: [], isDatabase: true };
  if (format === "parquet") return describeTyped(described, query, null);
  return /^(?:csv|tsv|txt)$/u.test(format)
    ? describeCsv(described, query)
    : describeTyped(described, query, format === "json" ? "auto" : "newline_delimited");
}

const unusable = (message: string, hint: string): FileTable => ({
  from: "",
  columns: [],
  faults: [{ message, hint }],
});

const pathList = (files: readonly InputFile[]) =>
  `[${files.map(({ path }) => quoteLiteral(path)).join(", ")}]`;
const isNamed = (name: string) => (other: string) => other.toLowerCase() === name.toLowerCase();

/** Bytes that DuckDB reads of a CSV file at once; by its own choice they take most of its memory. */
const BUFFER = 8 * 1024 * 1024;
/** Longest object of a JSON file; DuckDB reads twice as much at once. */
const JSON_OBJECT_BYTES = 1024 * 1024;

export const NOT_UTF8 =
  "Convert the file to UTF-8, or read it by `sql: select * from read_csv('FILE', encoding = 'latin-1', all_varchar = true)`.";

async function describeCsv({ files, needed }: Described, query: Query): Promise<FileTable> {
  const byHeader = new Map<string, InputFile[]>();
  for (const file of files) {
    const [first] = await query(`SELECT line FROM read_csv(${quoteLiteral(file.path)}, auto_detect = false,
      delim = chr(1), quote = '', escape = '', header = false, columns = {'line': 'VARCHAR'}, strict_mode = false, buffer_size = ${BUFFER}) LIMIT 1`);
    const line = first?.["line"] ?? "";
    if (line.includes("\0"))
      return unusable(`${file.name}, line 1, isn't UTF-8 but probably UTF-16`, NOT_UTF8);
    byHeader.set(line, [...(byHeader.get(line) ?? []), file]);
  }
  const groups = [...byHeader].map(([line, own]) => ({ ...headerOf(line), own }));
  const faults = groups.flatMap(({ names, own: [file] }) => {
    const missing = needed.filter((name) => !names.some(isNamed(name)));
    if (missing.length === 0) return [];
    // Without a header, the first line has personal data.
    const isHeader = missing.length < needed.length;
    const hint = isHeader
      ? columnsHint(missing, names)
      : "The first line must have the names of the columns; correct the file, or `key` and `fields`.";
    return [{ message: `${file?.name}, line 1, has no column ${missing.join(", ")}`, hint }];
  });
  const selects = groups.map(({ delimiter, names, own }) => {
    const columns = names.map((name) => `${quoteLiteral(name)}: 'VARCHAR'`).join(", ");
    return `SELECT * FROM read_csv(${pathList(own)}, auto_detect = false, delim = ${quoteLiteral(delimiter)}, quote = '"',
      escape = '"', header = true, columns = {${columns}}, buffer_size = ${BUFFER})`;
  });
  const names = groups.flatMap((group) => group.names);
  const distinct = names.filter((name, i) => names.findIndex(isNamed(name)) === i);
  return {
    from: `(${selects.join(" UNION ALL BY NAME ")})`,
    columns: distinct.map((name) => ({ name, type: "VARCHAR" })),
    faults,
  };
}

/** Reads a first line: the delimiter is the candidate that it has most of. Repeated and empty names get their position. */
function headerOf(line: string): { readonly delimiter: string; readonly names: readonly string[] } {
  const unquoted = line.replaceAll(/"(?:[^"]|"")*"/gu, "");
  const count = (text: string) => unquoted.split(text).length;
  const [delimiter = ","] = [",", ";", "\t", "|"].toSorted((a, b) => count(b) - count(a));
  const separator = literally(delimiter);
  const cell = new RegExp(`(?:^|${separator})(?:"((?:[^"]|"")*)"|([^${separator}]*))`, "gu");
  const names: string[] = [];
  for (const [, quoted, plain] of line.matchAll(cell)) {
    const name = (quoted?.replaceAll('""', '"') ?? plain ?? "").trim() || `column_${names.length + 1}`;
    names.push(names.some(isNamed(name)) ? `${name}_${names.length + 1}` : name);
  }
  return { delimiter, names };
}

/** Describes Parquet files, or JSON files if a format is given: the types that their columns have are their own. */
async function describeTyped(
  { files, needed }: Described,
  query: Query,
  jsonFormat: "newline_delimited" | "auto" | null,
): Promise<FileTable> {
  const json = `format = '${jsonFormat}', maximum_object_size = ${JSON_OBJECT_BYTES}`;
  const found = new Map<string, { readonly column: FileColumn; readonly file: InputFile }>();
  const faults: FileFault[] = [];
  for (const file of files) {
    const path = quoteLiteral(file.path);
    const rows = await query(
      jsonFormat === null
        ? `SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM read_parquet(${path}))`
        : `SELECT column_name, CASE WHEN column_type LIKE '%[]' THEN 'VARCHAR[]' ELSE 'VARCHAR' END AS column_type
            FROM (DESCRIBE SELECT * FROM read_json(${path}, ${json}, sample_size = -1, maximum_depth = 2))`,
    );
    const columns = rows.map((row) => ({ name: row["column_name"] ?? "", type: row["column_type"] ?? "" }));
    for (const column of columns) {
      const first = found.get(column.name.toLowerCase());
      if (!first) found.set(column.name.toLowerCase(), { column, file });
      else if (kindOf(first.column.type) !== kindOf(column.type) && needed.some(isNamed(column.name))) {
        const message = `${file.name} has ${column.name} as ${column.type}, ${first.file.name} as ${first.column.type}`;
        faults.push({ message, hint: "Write the column with the same type in all files." });
      }
    }
    const missing = needed.filter((name) => !columns.some((column) => isNamed(name)(column.name)));
    // JSON may leave out what is null.
    if (jsonFormat === null && missing.length > 0) {
      const names = columns.map(({ name }) => name);
      const message = `${file.name} has no column ${missing.join(", ")}`;
      faults.push({ message, hint: columnsHint(missing, names) });
    }
  }
  const columns = [...found.values()].map(({ column }) => column);
  if (jsonFormat === null)
    return { from: `read_parquet(${pathList(files)}, union_by_name = true)`, columns, faults };
  const types = columns.map(({ name }) => `${quoteLiteral(name)}: 'JSON'`).join(", ");
  const values = columns.map(({ name, type }) => {
    const column = quoteIdentifier(name);
    return `${type === "VARCHAR" ? `${column} ->> '$'` : `from_json(${column}, '["VARCHAR"]')`} AS ${column}`;
  });
  const from = `(SELECT ${values.join(", ")} FROM read_json(${pathList(files)}, ${json}, columns = {${types}}))`;
  return { from, columns, faults, isLarge: true };
}

/** One name for types whose equal values have equal texts. */
const kindOf = (type: string) =>
  type
    .replace(/^U?(?:BIGINT|INTEGER|SMALLINT|TINYINT|HUGEINT)\b/u, "INTEGER")
    .replace(/^DECIMAL[^[]*/u, "DECIMAL");
