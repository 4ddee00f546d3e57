import { randomBytes } from "node:crypto";
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { StopRunError } from "../../errors.ts";
import type { Column } from "../../schemas/table.ts";
import type { Measure, PublishedTable } from "../destination.ts";
import { type DuckSession, quoteName, quoteText } from "../duckdb/session.ts";
import { duckTypes, measureOf, type StagedTable, stagedRows } from "../duckdb/statements.ts";
import type { IcebergSchema } from "./specification.ts";
import type { DataFile } from "./manifests.ts";
import type { Storage } from "../../object-store.ts";
import type { NewFile } from "./tables.ts";

/** Bytes of a data file. A group of files that is rewritten at a time takes as much of the disk, and its result again. */
const FILE_BYTES = 128 * 1024 * 1024;
/** A writer holds the values of a group, and a reader its pages of all columns. */
const ROW_GROUP_BYTES = 4 * 1024 * 1024;
/** Files below this size are merged once there are more than {@link MOST_SMALL_FILES} of them. */
const SMALL_BYTES = 16 * 1024 * 1024;
const MOST_SMALL_FILES = 8;

/** Where the data files of a table are read and written. */
export interface RowFiles {
  readonly session: DuckSession;
  readonly storage: Storage;
  /** Folder for local copies. */
  readonly folder: string;
  readonly table: PublishedTable;
  readonly schema: IcebergSchema;
  /** Address of the folder of data files. */
  readonly address: string;
  /** Prefix of the names of new files. */
  readonly prefix: string;
}

const typeOf = ({ type }: Column) => (type === "json" ? "VARCHAR" : duckTypes[type].type);

/** Writes the rows of staged files into new data files. */
export function addStaged(files: RowFiles, staged: readonly StagedTable[]): Promise<readonly NewFile[]> {
  return write(files, stagedRows(staged, files.table, "rows"));
}

/** Writes the rows of a query into new data files. */
export async function write(files: RowFiles, query: string): Promise<readonly NewFile[]> {
  const { session, storage, folder, table, schema, address, prefix } = files;
  const made = await emptyFolder(folder, "made");
  const columns = table.columns.map(
    (c) => `CAST(${quoteName(c.name)} AS ${typeOf(c)}) AS ${quoteName(c.name)}`,
  );
  const options = [
    "FORMAT parquet",
    "COMPRESSION zstd",
    `ROW_GROUP_SIZE_BYTES ${ROW_GROUP_BYTES}`,
    `FILE_SIZE_BYTES ${FILE_BYTES}`,
    `FIELD_IDS ${fieldIds(schema, table)}`,
  ];
  const copy = `COPY (SELECT ${columns.join(", ")} FROM (${query})) TO ${quoteText(made)} (${options.join(", ")})`;
  const [copied] = await session.transaction(async () => {
    await rm(made, { recursive: true, force: true });
    return session.rows(copy);
  });
  const added: NewFile[] = [];
  for (const file of await readdir(made)) {
    const path = join(made, file);
    const [row] = await session.rows(
      `SELECT count(*)::VARCHAR AS rows FROM read_parquet(${quoteText(path)})`,
    );
    const rows = Number(row?.["rows"] ?? 0);
    if (rows > 0) {
      const to = `${address}/${prefix}-${randomBytes(4).toString("hex")}.parquet`;
      await storage.upload(path, to);
      added.push({ address: to, rows, bytes: (await stat(path)).size });
    }
    await rm(path);
  }
  const rows = added.reduce((sum, file) => sum + file.rows, 0);
  if (rows !== Number(copied?.["Count"]))
    throw new StopRunError("destination_failed", `Files in ${folder} were lost while they were written.`);
  return added;
}

/** Makes an empty folder for copies. */
async function emptyFolder(folder: string, name: string): Promise<string> {
  const made = join(folder, name);
  await rm(made, { recursive: true, force: true });
  await mkdir(made, { recursive: true, mode: 0o700 });
  return made;
}

function fieldIds({ fields }: IcebergSchema, { columns }: PublishedTable): string {
  const entries = columns.map(({ name }) => {
    const field = fields.find((candidate) => candidate.name === name);
    if (!field) throw new Error(`the table in the catalog has no column ${name}`);
    const { id, type } = field;
    const value =
      typeof type === "string" ? id : `{__duckdb_field_id: ${id}, element: ${type["element-id"]}}`;
    return `${quoteName(name)}: ${value}`;
  });
  return `{${entries.join(", ")}}`;
}

/** Rows of local copies of data files, with null in columns that they lack. */
function storedRows({ columns }: PublishedTable, paths: readonly string[]): string {
  const none = columns.map((c) => `NULL::${typeOf(c)} AS ${quoteName(c.name)}`);
  const list = paths.map(quoteText).join(", ");
  return `SELECT ${none.join(", ")} WHERE false UNION ALL BY NAME SELECT * FROM read_parquet([${list}], union_by_name = true)`;
}

interface Rewritten {
  /** Addresses of the files that are replaced. */
  readonly removed: ReadonlySet<string>;
  readonly added: readonly NewFile[];
}

/** Loads the staged keys of the table into a table of the session; not a temporary one, which is lost when the session opens its file again. */
async function loadKeys({ session, table }: RowFiles, staged: readonly StagedTable[]): Promise<void> {
  const keys = { ...table, columns: table.columns.filter((c) => table.rootKey.includes(c.name)) };
  await session.transaction(() =>
    session.run(`CREATE OR REPLACE TABLE changed AS ${stagedRows(staged, keys, "keys")}`),
  );
}

/** Replaces the data files that have rows of the staged keys by files without these rows. Merges small files, if there are many. */
export async function removeKeys(
  files: RowFiles,
  stored: readonly DataFile[],
  staged: readonly StagedTable[],
): Promise<Rewritten> {
  const { session, storage, folder, table } = files;
  await loadKeys(files, staged);
  const small = stored.filter((file) => sizeOf(file) < SMALL_BYTES);
  const merged = new Set(small.length > MOST_SMALL_FILES ? small : []);
  const using = table.rootKey.map(quoteName).join(", ");
  const removed = new Set<string>();
  const added: NewFile[] = [];
  for (const group of grouped(stored)) {
    const copies = await emptyFolder(folder, "stored");
    const paths: string[] = [];
    for (const [index, file] of group.entries()) {
      const path = join(copies, `${index}.parquet`);
      await storage.download(file.file_path, path);
      const changed = `(${storedRows(table, [path])}) AS t SEMI JOIN changed USING (${using})`;
      const [row] = merged.has(file)
        ? [{ rows: "1" }]
        : await session.transaction(() => session.rows(`SELECT count(*)::VARCHAR AS rows FROM ${changed}`));
      if (row?.["rows"] === "0") {
        await rm(path);
        continue;
      }
      paths.push(path);
      removed.add(file.file_path);
    }
    if (paths.length > 0) {
      const rest = `SELECT * FROM (${storedRows(table, paths)}) AS t ANTI JOIN changed USING (${using})`;
      added.push(...(await write(files, rest)));
    }
    await rm(copies, { recursive: true });
  }
  await session.transaction(() => session.run("DROP TABLE changed"));
  return { removed, added };
}

const sizeOf = ({ file_size_in_bytes: size }: DataFile) => Number(size);

/** Divides files into groups of at most a file's size, small ones together. */
function grouped(files: readonly DataFile[]): readonly (readonly DataFile[])[] {
  const groups: DataFile[][] = [];
  let bytes = 0;
  for (const file of files.toSorted((a, b) => sizeOf(a) - sizeOf(b))) {
    const last = groups.at(-1);
    if (last && bytes + sizeOf(file) <= FILE_BYTES) {
      last.push(file);
      bytes += sizeOf(file);
    } else {
      groups.push([file]);
      bytes = sizeOf(file);
    }
  }
  return groups;
}

/** Counts and hashes the rows of all data files of a table. */
export async function measureFiles(
  { session, storage, folder, table }: Pick<RowFiles, "session" | "storage" | "folder" | "table">,
  stored: readonly DataFile[],
): Promise<Measure> {
  let [rows, hash] = [0n, 0n];
  for (const group of grouped(stored)) {
    const copies = await emptyFolder(folder, "stored");
    const paths = group.map((_, index) => join(copies, `${index}.parquet`));
    for (const [index, file] of group.entries()) await storage.download(file.file_path, paths[index] ?? "");
    const [row] = await session.transaction(() =>
      session.rows(measureOf(table, `(${storedRows(table, paths)})`)),
    );
    rows += BigInt(row?.["rows"] ?? 0);
    hash += BigInt(row?.["hash"] ?? 0);
    await rm(copies, { recursive: true });
  }
  return { table: table.name, rows, hash: `${hash}` };
}
