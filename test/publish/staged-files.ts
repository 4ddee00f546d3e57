import { randomUUID } from "node:crypto";
import { mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { inject } from "vitest";
import type { ColumnType } from "../../src/schemas/field.ts";
import type {
  BatchRef,
  Catalog,
  CommitOutcome,
  Destination,
  FileFormat,
  PublishedTable,
  StagedFiles,
  TableChange,
} from "../../src/publish/destination.ts";

/** Values of a row in a file, by column. */
export type FileRow = Readonly<Record<string, unknown>>;

/** Changes of one table. */
export interface TableRows {
  readonly table: string;
  /** Keys whose rows are replaced; absent if all rows are. */
  readonly keys?: readonly FileRow[];
  readonly rows?: readonly FileRow[];
  readonly replaces?: "all";
}

let batches = 0;

/** A batch with a new id that follows another one. */
export function batchAfter(last: { readonly number: number; readonly id: string } | null): BatchRef {
  batches += 1;
  return {
    number: (last?.number ?? 0) + 1,
    id: randomUUID(),
    follows: last?.id ?? null,
    attempt: `a${batches}`,
  };
}

/** Declared table of a catalog. */
export function tableIn(catalog: Catalog, name: string): PublishedTable {
  const found = catalog.tables.find((table) => table.name === name);
  if (!found) throw new Error(`no table ${name} in the catalog`);
  return found;
}

const letters: Readonly<Record<string, string>> = {
  "\b": "b",
  "\t": "t",
  "\n": "n",
  "\v": "v",
  "\f": "f",
  "\r": "r",
};

/** A value as COPY writes it. */
function escapedText(value: unknown): string {
  if (value === null) return "\\N";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.replaceAll(/[\b\t\n\v\f\r\\]/gu, (found) => `\\${letters[found] ?? found}`);
}

function lineOf(format: FileFormat, columns: readonly string[], row: FileRow): string {
  const cells = columns.map((column) => row[column] ?? null);
  if (format === "text") return `${["", ...cells.map(escapedText)].join("\t")}\n`;
  return `${JSON.stringify(Object.fromEntries(columns.map((column, index) => [column, cells[index]])))}\n`;
}

/** Writes rows to a number of files in the form of a destination; absent columns are null. */
export async function writeFiles(
  { fileFormat }: Pick<Destination, "fileFormat">,
  table: PublishedTable,
  content: StagedFiles["content"],
  rows: readonly FileRow[],
  fileCount = 1,
  replaces: StagedFiles["replaces"] = "keys",
): Promise<StagedFiles> {
  const folder = await mkdtemp(join(inject("runFolder"), "staged-"));
  const columns = table.columns
    .map((c) => c.name)
    .filter((c) => content === "rows" || table.rootKey.includes(c));
  const lines = rows.map((row) => lineOf(fileFormat, columns, row));
  const files: string[] = [];
  for (let index = 0; index < fileCount; index += 1) {
    const file = join(folder, `${table.name}-${content}-${index}`);
    const text = lines.filter((_, line) => line % fileCount === index).join("");
    await writeFile(file, fileFormat === "json" ? gzipSync(text) : text);
    files.push(file);
  }
  return {
    table,
    content,
    replaces,
    part: 0,
    files,
    lines: rows.length,
    longestLineBytes: Math.max(0, ...lines.map((line) => Buffer.byteLength(line))),
  };
}

/** Stages the files of a batch, like the publisher. */
export async function stageAll(
  destination: Destination,
  catalog: Catalog,
  batch: BatchRef,
  changed: readonly TableRows[],
): Promise<readonly TableChange[]> {
  const changes: TableChange[] = [];
  for (const { table: name, keys, rows = [], replaces = "keys" } of changed) {
    const table = tableIn(catalog, name);
    if (keys) await destination.stage(batch, await writeFiles(destination, table, "keys", keys));
    if (rows.length > 0) {
      await destination.stage(batch, await writeFiles(destination, table, "rows", rows, 1, replaces));
    }
    changes.push({ table, replaces, hasRows: rows.length > 0 });
  }
  return changes;
}

/** Stages and commits a batch. */
export async function publishRows(
  destination: Destination,
  catalog: Catalog,
  batch: BatchRef,
  changed: readonly TableRows[],
): Promise<CommitOutcome> {
  const changes = await stageAll(destination, catalog, batch, changed);
  return destination.commit({ ...batch, changes, erases: false });
}

/** A value of each type that an engine could change, in the form of the files. */
export const valuesByType: Readonly<Record<ColumnType, unknown>> = {
  text: "\uFEFFé \u0003 🎉",
  integer: -9_007_199_254_740_991,
  position: 7,
  numeric: "-100.00000000000000000001",
  boolean: false,
  date: "0001-01-01",
  timestamptz: "9999-12-31T23:59:59.999999+00:00",
  timestamp: "1969-12-31T23:59:59.999999",
  json: '{"a": 1}',
  uuid: "00000000-0000-4000-8000-00000000000a",
  "text[]": ["a", "", "b\tc"],
  bytes: "AAECA/7/",
};
