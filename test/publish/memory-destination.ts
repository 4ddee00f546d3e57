import { readFile } from "node:fs/promises";
import { gunzipSync } from "node:zlib";
import type { BatchRef, Destination, PublishedTable, StagedFiles } from "../../src/publish/destination.ts";
import { hashOf } from "./row-hash.ts";
import type { FileRow } from "./staged-files.ts";

/** A destination in memory that reads the real files, with controls for tests. */
export interface MemoryDestination extends Destination {
  /** Rows of a table by the JSON text of their key. */
  rows(table: string): ReadonlyMap<string, FileRow>;
  /** Runs at a step of each batch; may throw like a crash, or wait. */
  onStep: (step: "staged" | "committing" | "committed", batch: BatchRef) => Promise<void> | void;
  /** Committed batches with their changes. */
  readonly committed: readonly {
    readonly number: number;
    readonly tables: readonly string[];
    readonly erases: boolean;
  }[];
  /** Restores an earlier state, like a backup. */
  snapshot(): () => void;
}

const keyText = (row: FileRow, key: readonly string[]) => JSON.stringify(key.map((column) => row[column]));

async function readRows({ files }: StagedFiles): Promise<readonly FileRow[]> {
  const texts = await Promise.all(files.map(async (file) => gunzipSync(await readFile(file)).toString()));
  return texts.flatMap((text) =>
    text
      .split("\n")
      .filter((line) => line !== "")
      .map((line): FileRow => JSON.parse(line)),
  );
}

const stagingKey = (batch: BatchRef, table: string, content: string) =>
  `${batch.attempt} ${table} ${content}`;

/** Creates an empty destination. Several publishers can share it. */
export function createMemoryDestination(name = "memory", keysPerBatch = 1000): MemoryDestination {
  let position: { number: number; id: string } | null = null;
  let tables = new Map<string, Map<string, FileRow>>();
  const staged = new Map<string, readonly FileRow[]>();
  const committed: { number: number; tables: readonly string[]; erases: boolean }[] = [];
  const tableOf = (table: PublishedTable) => {
    const rows = tables.get(table.name) ?? new Map<string, FileRow>();
    tables.set(table.name, rows);
    return rows;
  };
  const destination: MemoryDestination = {
    name,
    description: "memory",
    fileFormat: "json",
    keysPerBatch,
    committed,
    onStep: () => {},
    check: () => Promise.resolve([]),
    migrate: () => Promise.resolve(),
    restart: () => Promise.resolve(),
    position: () => Promise.resolve(position),
    async stage(batch, files) {
      const key = stagingKey(batch, files.table.name, files.content);
      const rows = await readRows(files);
      expectLines(files, rows);
      staged.set(key, [...(staged.get(key) ?? []), ...rows]);
    },
    async commit(batch) {
      await destination.onStep("staged", batch);
      await destination.onStep("committing", batch);
      if (position?.id === batch.id) return "present";
      if ((position?.id ?? null) !== batch.follows) return "refused";
      for (const { table, replaces, hasRows } of batch.changes) {
        const rows = tableOf(table);
        if (replaces === "all") rows.clear();
        else {
          const keys = staged.get(stagingKey(batch, table.name, "keys")) ?? [];
          const gone = new Set(keys.map((key) => keyText(key, table.rootKey)));
          for (const [key, row] of rows) if (gone.has(keyText(row, table.rootKey))) rows.delete(key);
        }
        const added = hasRows ? (staged.get(stagingKey(batch, table.name, "rows")) ?? []) : [];
        for (const row of added) {
          const key = keyText(row, table.key);
          if (rows.has(key)) throw new Error(`two rows of ${table.name} with the key ${key}`);
          rows.set(key, row);
        }
      }
      position = { number: batch.number, id: batch.id };
      committed.push({
        number: batch.number,
        tables: batch.changes.map(({ table }) => table.name),
        erases: batch.erases,
      });
      await destination.onStep("committed", batch);
      return "committed";
    },
    finish: () => Promise.resolve(),
    measure: (asked) =>
      Promise.resolve(
        asked.map((table) => {
          const rows = [...tableOf(table).values()];
          return { table: table.name, rows: BigInt(rows.length), hash: hashOf(table, rows, "json") };
        }),
      ),
    explain: (error) => error,
    close: () => Promise.resolve(),
    rows: (table) => tables.get(table) ?? new Map(),
    snapshot() {
      const saved = { position, tables: new Map([...tables].map(([table, rows]) => [table, new Map(rows)])) };
      return () => {
        ({ position } = saved);
        tables = new Map([...saved.tables].map(([table, rows]) => [table, new Map(rows)]));
      };
    },
  };
  return destination;
}

function expectLines({ table, lines }: StagedFiles, rows: readonly FileRow[]): void {
  if (rows.length !== lines) throw new Error(`${table.name}: ${rows.length} lines instead of ${lines}`);
}
