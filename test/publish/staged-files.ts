import { randomUUID } from "node:crypto";
import { mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { inject } from "vitest";
import type {
  BatchRef,
  Catalog,
  CommitOutcome,
  Destination,
  PublishedTable,
  StagedFiles,
  TableChange,
} from "../../src/publish/destination.ts";

/** Values of a row in a file, by column. */
export type FileRow = Readonly<Record<string, unknown>>;

/** Changes of one table. */
export interface TableRows {
  readonly table: string;
  /** Keys whose rows are replaced; absent for children and if all rows are replaced. */
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

/** Writes rows to a number of gzip files; absent columns are null. */
export async function writeFiles(
  table: PublishedTable,
  content: StagedFiles["content"],
  rows: readonly FileRow[],
  fileCount = 1,
): Promise<StagedFiles> {
  const folder = await mkdtemp(join(inject("runFolder"), "staged-"));
  const columns = content === "keys" ? table.rootKey : table.columns.map((c) => c.name);
  const lines = rows.map(
    (row) => `${JSON.stringify(Object.fromEntries(columns.map((c) => [c, row[c] ?? null])))}\n`,
  );
  const files: string[] = [];
  for (let index = 0; index < fileCount; index += 1) {
    const file = join(folder, `${table.name}-${content}-${index}.ndjson.gz`);
    await writeFile(file, gzipSync(lines.filter((_, line) => line % fileCount === index).join("")));
    files.push(file);
  }
  return {
    table,
    content,
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
    if (keys) await destination.stage(batch, await writeFiles(table, "keys", keys));
    if (rows.length > 0) await destination.stage(batch, await writeFiles(table, "rows", rows));
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
