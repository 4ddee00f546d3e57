import { chmod, stat } from "node:fs/promises";
import { totalmem } from "node:os";
import type { DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import { messageOf } from "../../errors.ts";

export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** A row as text values by column name. */
export type TextRow = Readonly<Record<string, string | null>>;

/** One open DuckDB file with one connection. */
export type DuckSession = Awaited<ReturnType<typeof openDuckDb>>;

/** Megabytes for DuckDB's buffers, which keeps the process below 256 MB; larger work spills into the temporary folder. */
const MEMORY_MB = 64;
/**
 * Rows that are scanned before the file is opened again. DuckDB keeps marks of deleted rows in memory until the file is closed: 18 KB per 2,048
 * scanned rows with a deleted one, so up to 12 MB.
 */
const ROWS_PER_SCAN = 1_300_000;
/** Most megabytes for work that can't spill, as of rows of many megabytes. Half of what the machine or the container has. */
function mostMemoryMb(): number {
  const limit = process.constrainedMemory() || Infinity;
  return Math.max(MEMORY_MB, Math.floor(Math.min(limit, totalmem()) / 2 / 1024 ** 2));
}

/** Memory that a row of many megabytes takes, in multiples of its size. */
const MEMORY_PER_ROW = 16;
/** Memory that is free but not returned to the system. */
const MOST_UNRETURNED = "1MB";
/** Bytes of the log that a transaction may leave without a checkpoint; reading the log takes time and memory at the next opening. */
const MOST_LOG_BYTES = 16 * 1024 * 1024;

interface OpenFile {
  readonly instance: DuckDBInstance;
  readonly connection: DuckDBConnection;
  readonly memoryMb: number;
}

/** Opens a file. Takes more memory if reading its log runs out of it. */
async function openFile(file: string, folder: string, memoryMb: number): Promise<OpenFile> {
  try {
    return await openWith(file, folder, memoryMb);
  } catch (error) {
    if (!isOutOfMemory(error) || memoryMb >= mostMemoryMb()) throw error;
    return openFile(file, folder, Math.min(2 * memoryMb, mostMemoryMb()));
  }
}

/** Loads DuckDB with its native part. Takes 20 MB and 0.1 s, which a process without a DuckDB destination saves. */
export function loadDuckDb() {
  return import("@duckdb/node-api");
}

async function openWith(file: string, folder: string, memoryMb: number): Promise<OpenFile> {
  const duckdb = await loadDuckDb();
  const instance = await duckdb.DuckDBInstance.create(file, {
    memory_limit: `${memoryMb}MB`,
    allocator_flush_threshold: MOST_UNRETURNED,
    allocator_bulk_deallocation_flush_threshold: MOST_UNRETURNED,
    // A COMMIT whose own checkpoint runs out of memory may have committed or not.
    checkpoint_threshold: "1TB",
    // Each thread has its own buffers.
    threads: "1",
    preserve_insertion_order: "false",
    temp_directory: folder,
    autoinstall_known_extensions: "false",
  });
  try {
    const connection = await instance.connect();
    await chmod(file, 0o600);
    await connection.run("SET TimeZone = 'UTC'");
    // It would be a full one, see `checkpoint`.
    await connection.run("PRAGMA disable_checkpoint_on_shutdown");
    return { instance, connection, memoryMb };
  } catch (error) {
    instance.closeSync();
    throw error;
  }
}

function closeFile({ instance, connection }: OpenFile): void {
  connection.closeSync();
  instance.closeSync();
}

/** True for any failure by a lack of memory, also of a checkpoint, which DuckDB reports as fatal. */
export function isOutOfMemory(error: unknown): boolean {
  return /^Out of Memory Error|Increasing the memory limit/u.test(messageOf(error));
}

/** Opens a file, creating it if it is missing. `folder` is for temporary files. */
export async function openDuckDb(file: string, folder: string) {
  let open = await openFile(file, folder, MEMORY_MB);
  let { memoryMb } = open;
  /** True if nothing was committed since the file was opened. */
  let isNew = true;
  /** Rows scanned since then. */
  let scanned = 0;
  const run = async (statement: string) => {
    await open.connection.run(statement);
  };
  const raiseMemory = async (megabytes: number) => {
    if (megabytes <= memoryMb) return;
    memoryMb = Math.min(megabytes, mostMemoryMb());
    await run(`SET memory_limit = '${memoryMb}MB'`);
  };
  const reopen = async () => {
    closeFile(open);
    open = await openFile(file, folder, memoryMb);
    ({ memoryMb } = open);
    isNew = true;
    scanned = 0;
  };
  /**
   * Runs work that does nothing if it fails. If DuckDB runs out of memory, opens the file again, with more memory if nothing was committed
   * since the last opening, and repeats it: after the incomplete rollback, a DELETE would conflict with itself.
   */
  const withMemory = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!isOutOfMemory(error) || (isNew && memoryMb >= mostMemoryMb())) throw error;
        if (isNew) memoryMb = Math.min(2 * memoryMb, mostMemoryMb());
        await reopen();
      }
    }
  };
  /**
   * A full checkpoint loads the marks of deleted rows of all tables, to find row groups that it can merge. DuckDB doesn't look for any while a
   * transaction is open that began before the last commit; so no row moves, and deleted ones stay until the file is rewritten.
   */
  const checkpoint = async () => {
    await withMemory(async () => {
      const reader = await open.instance.connect();
      try {
        await run("CREATE SCHEMA IF NOT EXISTS person_etl");
        await run("CREATE TABLE IF NOT EXISTS person_etl.checkpoint (i INTEGER)");
        await reader.run("BEGIN TRANSACTION");
        await reader.run("FROM person_etl.checkpoint");
        // Not an UPDATE: a second one of a row would count as unfinished while the reader is.
        await run("DELETE FROM person_etl.checkpoint");
        await run("INSERT INTO person_etl.checkpoint VALUES (1)");
        await run("CHECKPOINT");
      } finally {
        reader.closeSync();
      }
    });
    memoryMb = MEMORY_MB;
    await reopen();
  };
  const release = async () => ((await logBytes(file)) > 0 ? checkpoint() : reopen());
  /** Runs a query whose columns are all text. */
  const rows = async (query: string) => {
    const reader = await open.connection.runAndReadAll(query);
    return reader.getRowObjectsJson() as readonly TextRow[]; // all columns are text
  };
  return {
    run,
    rows,
    /** Raises the memory to what rows of this size need. */
    makeRoom: (rowBytes: number) =>
      raiseMemory(MEMORY_MB + MEMORY_PER_ROW * Math.floor(rowBytes / 1024 ** 2)),
    /** Runs `work` in a transaction that is rolled back if it throws. If DuckDB runs out of memory, opens the file again and repeats `work`. */
    async transaction<Result>(work: () => Promise<Result>): Promise<Result> {
      const result = await withMemory(async () => {
        await run("BEGIN TRANSACTION");
        try {
          const done = await work();
          await run("COMMIT");
          isNew = false;
          return done;
        } catch (error) {
          // A failed COMMIT has rolled back already.
          await run("ROLLBACK").catch(() => {});
          throw error;
        }
      });
      if ((await logBytes(file)) > MOST_LOG_BYTES) await checkpoint();
      return result;
    },
    /**
     * Calls `work` with conditions that divide the rows of a table into ranges, and opens the file again before marks of deleted rows take too
     * much memory. Rows that `work` inserts into the table are in no range.
     */
    async scan(schema: string, table: string, work: (range: string) => Promise<void>): Promise<void> {
      // Counts deleted rows, too, as row IDs do.
      const [size] = await rows(
        `SELECT estimated_size::VARCHAR AS rows FROM duckdb_tables()
           WHERE database_name = current_database() AND schema_name = ${quoteText(schema)} AND table_name = ${quoteText(table)}`,
      );
      const end = Number(size?.["rows"] ?? 0);
      for (let first = 0; first < end; first += ROWS_PER_SCAN) {
        const last = Math.min(first + ROWS_PER_SCAN, end);
        if (scanned > 0 && scanned + last - first > ROWS_PER_SCAN) await release();
        scanned += last - first;
        await work(`rowid >= ${first} AND rowid < ${last}`);
      }
    },
    /** Writes the log into the file and opens it again, which frees the marks of deleted rows; with more memory if DuckDB runs out of it. */
    checkpoint,
    close: () => closeFile(open),
  };
}

async function logBytes(file: string): Promise<number> {
  return (await stat(`${file}.wal`).catch(() => null))?.size ?? 0;
}

/** Copies a whole database into a new file without deleted rows and freed blocks. */
export async function copyDatabase(session: DuckSession, file: string): Promise<void> {
  // No destination or schema can have this name.
  const copy = (statement: string) =>
    session.transaction(async () => {
      await session.run(`ATTACH IF NOT EXISTS ${quoteText(file)} AS "rewritten file"`);
      await session.run(statement);
    });
  const [own] = await session.rows("SELECT current_database() AS name");
  await copy(`COPY FROM DATABASE ${quoteName(own?.["name"] ?? "")} TO "rewritten file" (SCHEMA)`);
  const tables = await session.rows(
    "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = current_database()",
  );
  for (const { schema_name: schema, table_name: table } of tables) {
    const name = `${quoteName(schema ?? "")}.${quoteName(table ?? "")}`;
    await session.scan(schema ?? "", table ?? "", (range) =>
      copy(`INSERT INTO "rewritten file".${name} FROM ${name} WHERE ${range}`),
    );
  }
}
