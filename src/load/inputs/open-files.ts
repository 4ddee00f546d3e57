import type { DuckDBConnection } from "@duckdb/node-api";
import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { quoteLiteral } from "../db/names.ts";
import { columnOf, engineOf, isOutOfMemory, MEMORY_MB } from "./duckdb.ts";
import { type InputEngine, openSqlInputs } from "./engine.ts";
import { explainFiles, refuseFiles } from "./file-failures.ts";
import { describeFiles, type InputFile, openFileFolder } from "./files.ts";
import type { DuckDbConnection, InputDatabase, InputSource } from "./input.ts";

/** Rows of a row group of a copy, which are in memory together. */
const GROUP_ROWS = 2048;

/** Opens a DuckDB in memory, which `cleanup` closes. */
async function openSession(
  folder: string,
  scratch: string,
  cleanup: AsyncDisposableStack,
): Promise<DuckDBConnection> {
  const { DuckDBInstance } = await import("@duckdb/node-api");
  const instance = await DuckDBInstance.create(":memory:", {
    memory_limit: `${MEMORY_MB}MB`,
    // Freed memory is returned to the system.
    allocator_flush_threshold: "1MB",
    allocator_bulk_deallocation_flush_threshold: "1MB",
    // Each thread has its own buffers.
    threads: "1",
    preserve_insertion_order: "false",
    temp_directory: scratch,
    file_search_path: folder,
    autoinstall_known_extensions: "false",
    autoload_known_extensions: "false",
  });
  cleanup.defer(() => instance.closeSync());
  const session = await instance.connect();
  cleanup.defer(() => session.closeSync());
  await session.run("SET TimeZone = 'UTC'");
  return session;
}

/** Copies rows to a Parquet file; false if they are too wide for the memory. */
async function copyTo(session: DuckDBConnection, path: string, from: string): Promise<boolean> {
  try {
    await session.run(`COPY ${from} TO ${quoteLiteral(path)} (FORMAT parquet, ROW_GROUP_SIZE ${GROUP_ROWS})`);
    return true;
  } catch (error) {
    if (isOutOfMemory(error)) return false;
    throw error;
  }
}

/** Opens files that inputs are read from. Each operation has a DuckDB of its own, so that none holds memory or a lock. */
export function openFiles(connection: DuckDbConnection): InputDatabase {
  const folder = openFileFolder(connection);

  async function open<Result>(
    input: InputSource,
    work: (engine: InputEngine, input: InputSource) => Promise<Result>,
    isSorted = false,
  ): Promise<Result> {
    const place = connection.path ?? ("table" in input.relation ? (input.relation.table[0] ?? "") : null);
    let files: readonly InputFile[] = [];
    await using cleanup = new AsyncDisposableStack();
    try {
      if (place !== null) files = await folder.find(place);
      const start = connection.places().folder;
      const session = await openSession(start, await folder.path(), cleanup);
      const engine = engineOf(session);
      if (place === null) return await work(engine, input);
      const needed = [...new Set([...input.key, ...Object.values(input.fields).flat()])];
      const table = await describeFiles({ place, folder: start, files, needed }, (text) =>
        engine.rows(text, {}),
      );
      if (table.faults.length > 0) throw refuseFiles(input, table.faults);
      if (table.isDatabase) {
        await session.run(`ATTACH ${quoteLiteral(files[0]?.path ?? "")} AS source (READ_ONLY); USE source`);
        return await work(engine, input);
      }
      const path = join(await folder.path(), `${randomUUID()}.parquet`);
      cleanup.defer(() => rm(path, { force: true }));
      const isCopied = isSorted && table.isLarge === true && (await copyTo(session, path, table.from));
      const from = isCopied ? `read_parquet(${quoteLiteral(path)})` : table.from;
      const result = await work(
        { ...engine, describe: async () => table.columns.map(columnOf), quoteQualified: () => from },
        input,
      );
      await folder.verify(place, files);
      return result;
    } catch (error) {
      throw explainFiles(error, input, files);
    }
  }

  return openSqlInputs(open, () => folder.close());
}
