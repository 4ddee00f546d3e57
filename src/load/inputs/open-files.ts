import type { DuckDBConnection } from "@duckdb/node-api";
import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { basename, join } from "node:path";
import {
  codeOf,
  FixConfigurationError,
  isOwnError,
  messageOf,
  type Problem,
  StopRunError,
} from "../../errors.ts";
import { StorageError, UnreachableError, UntrustedAddressError } from "../../object-store.ts";
import { quoteLiteral } from "../db/names.ts";
import { columnOf, engineOf, isOutOfMemory, MEMORY_MB } from "./duckdb.ts";
import { type InputEngine, openSqlInputs } from "./engine.ts";
import { settingOf } from "./columns.ts";
import { describeFiles, type FileFault, type InputFile, NOT_UTF8, openFileFolder } from "./files.ts";
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

/** Error of an input whose files can't be used. */
function refuseFiles(
  input: InputSource,
  faults: readonly FileFault[],
  cause?: unknown,
): FixConfigurationError {
  const path = `inputs.${input.name}.${settingOf(input)}`;
  const problems = faults.map(({ message, hint }): Problem => ({ path, message: `${message}.`, hint }));
  const text = `The input ${input.name} can't be read: ${faults[0]?.message}.`;
  return new FixConfigurationError("bad_input", text, problems, { cause });
}

/** Converts failures of DuckDB, files and object stores into errors with a remedy. Never repeats content, as DuckDB does. */
function explainFiles(error: unknown, input: InputSource, files: readonly InputFile[]): unknown {
  const message = messageOf(error);
  const refused = (text: string, hint: string) => refuseFiles(input, [{ message: text, hint }], error);
  const stopped = (text: string) =>
    new StopRunError("input_failed", `The input ${input.name} can't be read: ${text}`, { cause: error });
  if (error instanceof UntrustedAddressError) return refused(message, error.hint);
  if (error instanceof StorageError) {
    return error.isPassing
      ? stopped(`${message}. Run again later.`)
      : refused(message, "Check the address, and the connection's keys, their privileges and `s3_region`.");
  }
  if (error instanceof UnreachableError || message === "terminated") {
    const reason = message === "terminated" ? "the connection was lost" : message;
    const next = `Check inputs.${input.name}.${settingOf(input)}, its connection and the network, then run again.`;
    return stopped(`${reason}. ${next}`);
  }
  if (["MODULE_NOT_FOUND", "ERR_DLOPEN_FAILED"].includes(codeOf(error) ?? "")) {
    const hint = "Install person-etl without --omit=optional, on the system and architecture that runs it.";
    return refused("DuckDB's package for this system is missing or can't be loaded", hint);
  }
  // Failures of the warehouse, which receives the rows, have a code.
  if (isOwnError(error) || codeOf(error) !== null) return error;
  const fault = faultOf(message, files);
  if (fault) return refused(fault.message, fault.hint);
  const [, kind] = /^([A-Z][A-Za-z ]{1,40} Error)\b/u.exec(message) ?? [];
  if (kind === undefined) return error;
  if (kind === "Out of Memory Error" || /no space left|disk space/iu.test(message)) {
    return stopped("no memory or disk space is left. Free some and run again.");
  }
  if (/lock on file/iu.test(message)) {
    return stopped("another program has its file open for writing. Run again later.");
  }
  const isOfSql = /^(?:Binder|Catalog|Parser) Error/u.test(message);
  const [only] = files.length === 1 ? files : [];
  const place = only === undefined ? "" : ` in ${only.name}`;
  const text = isOfSql ? (message.split("\n")[0] ?? "") : `DuckDB reported ${kind}${place}`;
  return refused(text, "Correct the file, or the SQL of the input.");
}

const FILE_IN_MESSAGE = /GZIP stream: (.*)|file = (.*)|in file "([^"]*)"|file '([^']*)'|file "([^"]*)"/u;

/** Fault of a file that DuckDB can't parse, with its line; null for other failures. */
function faultOf(message: string, files: readonly InputFile[]): FileFault | null {
  const path =
    FILE_IN_MESSAGE.exec(message)
      ?.slice(1)
      .find((part) => part !== undefined) ?? "";
  const name = files.find((file) => file.path === path)?.name ?? basename(path);
  const hint = "Correct the file, or write it again.";
  const [, jsonLine, reason] = /Malformed JSON in file .* in line (\d+): ([^.\n"]*)/u.exec(message) ?? [];
  // DuckDB counts lines of JSON from 2.
  if (jsonLine !== undefined)
    return { message: `${name}, line ${Number(jsonLine) - 1}, isn't JSON: ${reason}`, hint };
  const [, byte, why] = /Malformed JSON in file .* at byte (\d+) [^:]*: ([^.\n"]*)/u.exec(message) ?? [];
  if (byte !== undefined) return { message: `${name}, byte ${byte}, isn't JSON: ${why}`, hint };
  if (/not a GZIP stream|Unknown frame descriptor/u.test(message)) {
    const packed =
      files.find((file) => file.path === path) ?? files.find((file) => file.path.endsWith(".zst"));
    const repair = "Compress the file, or remove the end of its name: .gz or .zst.";
    return { message: `${packed?.name ?? "a file"} isn't compressed as its name says`, hint: repair };
  }
  if (/No magic bytes|too small to be a Parquet/iu.test(message))
    return { message: `${name} isn't a Parquet file`, hint };
  if (/not a valid DuckDB database|storage version/iu.test(message))
    return { message: `${name} isn't a DuckDB database that this version reads`, hint };
  const [, line] = /CSV Error on Line: (\d+)/u.exec(message) ?? [];
  if (line === undefined) return null;
  const place = `${name}, line ${line} (line breaks in quotes aren't counted),`;
  if (/invalid unicode|not utf-8/iu.test(message)) return { message: `${place} isn't UTF-8`, hint: NOT_UTF8 };
  const [, columns, values] = /Expected Number of Columns: (\d+) Found: (\d+)/u.exec(message) ?? [];
  if (columns !== undefined) return { message: `${place} has ${values} values for ${columns} columns`, hint };
  const what = /unterminated quote/iu.test(message) ? "has a quote that doesn't end" : "isn't CSV";
  return { message: `${place} ${what}`, hint };
}
