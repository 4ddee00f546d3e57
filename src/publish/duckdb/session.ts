import { chmod } from "node:fs/promises";
import type { DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import { messageOf } from "../../errors.ts";
import { quoteText } from "./quote.ts";

/** A row as text values by column name. */
export type TextRow = Readonly<Record<string, string | null>>;

/** One open DuckDB file with one connection. */
export interface DuckSession {
  run(statement: string): Promise<void>;
  /** Runs a query whose columns are all text. */
  rows(query: string): Promise<readonly TextRow[]>;
  /** Raises the memory to what rows of this size need; a checkpoint without it makes the session unusable. */
  makeRoom(rowBytes: number): Promise<void>;
  /** Runs `work` in a transaction that is rolled back if it throws; repeats it with more memory if DuckDB runs out of it. */
  transaction<Result>(work: () => Promise<Result>): Promise<Result>;
  close(): void;
}

/** Megabytes for DuckDB's buffers, which keeps the process below 256 MB; larger work spills into the temporary folder. */
const MEMORY_MB = 48;
/** Megabytes for work that can't spill, such as rows of many megabytes. */
const MOST_MEMORY_MB = 512;
/** Memory that a row of many megabytes takes, in multiples of its size. */
const MEMORY_PER_ROW = 16;
/** Memory that is free but not returned to the system. */
const MOST_UNRETURNED = "1MB";

/** Opens a file, creating it if it is missing. `folder` is for temporary files. */
export async function openDuckDb(file: string, folder: string): Promise<DuckSession> {
  // Takes 20 MB and 0.1 s, which a process without a DuckDB destination saves.
  const duckdb = await import("@duckdb/node-api");
  const instance = await duckdb.DuckDBInstance.create(file, {
    memory_limit: `${MEMORY_MB}MB`,
    allocator_flush_threshold: MOST_UNRETURNED,
    allocator_bulk_deallocation_flush_threshold: MOST_UNRETURNED,
    // Each thread has its own buffers.
    threads: "1",
    preserve_insertion_order: "false",
    temp_directory: folder,
    autoinstall_known_extensions: "false",
  });
  const connection = await instance.connect();
  await chmod(file, 0o600);
  await connection.run("SET TimeZone = 'UTC'");
  return sessionOf(connection, instance);
}

function isOutOfMemory(error: unknown): boolean {
  return messageOf(error).startsWith("Out of Memory Error");
}

function sessionOf(connection: DuckDBConnection, instance: DuckDBInstance): DuckSession {
  let memoryMb = MEMORY_MB;
  const run = async (statement: string) => {
    await connection.run(statement);
  };
  const raiseMemory = async (megabytes: number) => {
    if (megabytes <= memoryMb) return;
    memoryMb = Math.min(megabytes, MOST_MEMORY_MB);
    await run(`SET memory_limit = '${memoryMb}MB'`);
  };
  return {
    run,
    makeRoom: (rowBytes) => raiseMemory(MEMORY_MB + MEMORY_PER_ROW * Math.floor(rowBytes / 1024 ** 2)),
    async rows(query) {
      const reader = await connection.runAndReadAll(query);
      const names = reader.columnNames();
      return reader.getRowsJson().map((values) =>
        Object.fromEntries(
          names.map((name, index) => {
            const value = values[index] ?? null;
            return [name, typeof value === "string" ? value : null];
          }),
        ),
      );
    },
    async transaction(work) {
      for (;;) {
        await run("BEGIN TRANSACTION");
        try {
          const result = await work();
          await run("COMMIT");
          return result;
        } catch (error) {
          // A failed COMMIT has rolled back already.
          await run("ROLLBACK").catch(() => {});
          if (!isOutOfMemory(error) || memoryMb >= MOST_MEMORY_MB) throw error;
          await raiseMemory(memoryMb * 2);
        }
      }
    },
    close() {
      connection.closeSync();
      instance.closeSync();
    },
  };
}

/** Copies a whole database into a new file without freed blocks, checkpointed. */
export async function copyDatabase(session: DuckSession, file: string): Promise<void> {
  const [own] = await session.rows("SELECT current_database() AS name");
  await session.run(`ATTACH ${quoteText(file)} AS rewritten`);
  try {
    await session.transaction(() => session.run(`COPY FROM DATABASE "${own?.["name"] ?? ""}" TO rewritten`));
  } finally {
    await session.run("DETACH rewritten");
  }
}
