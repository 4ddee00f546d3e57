import { readFile, stat } from "node:fs/promises";
import { basename } from "node:path";
import { codeOf, FixConfigurationError, type Problem } from "../errors.ts";

/** Limit for files passed by mistake, for which the parser could take minutes. */
const MAX_BYTES = 128 * 1024;

/** Reads the configuration file; throws if it is unreadable. */
export async function readConfigFile(file: string): Promise<string> {
  const bytes = await readBytes(file);
  const text = decode(bytes);
  if (text !== null) return text;
  const [first, second] = bytes;
  const isUtf16 = (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);
  throw invalid(file, {
    path: basename(file),
    message: "is not UTF-8 text",
    line: isUtf16 ? 1 : lineOfFirstBadByte(bytes),
    hint: isUtf16 ? "it is UTF-16: save it as UTF-8" : "save it as UTF-8",
  });
}

async function readBytes(file: string): Promise<Buffer> {
  try {
    const { size } = await stat(file);
    if (size > MAX_BYTES) {
      throw invalid(file, {
        path: basename(file),
        message: "is larger than 128 KiB, the maximum size of a configuration",
        hint: "pass the right file with --config",
      });
    }
    return await readFile(file);
  } catch (error) {
    if (error instanceof FixConfigurationError) throw error;
    throw unreadable(file, error);
  }
}

function unreadable(file: string, error: unknown): FixConfigurationError {
  const code = codeOf(error);
  if (code === "ENOENT" || code === "ENOTDIR") {
    const message = `no configuration at ${file}; create one with \`person-etl init\`, or pass --config`;
    return new FixConfigurationError("no_configuration", message, [], { cause: error });
  }
  const reason =
    code === "EISDIR"
      ? "is a folder"
      : code === "EACCES"
        ? "is not readable by this user"
        : `can't be read (${code})`;
  const problem = { path: basename(file), message: reason, hint: "pass the file with --config" };
  return new FixConfigurationError("unreadable_configuration", `${file} ${reason}`, [problem], {
    cause: error,
  });
}

function invalid(file: string, problem: Problem): FixConfigurationError {
  return new FixConfigurationError("invalid_configuration", `1 problem in ${file}`, [problem]);
}

function decode(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** A newline byte never occurs inside a UTF-8 character, so each line can be decoded separately. */
function lineOfFirstBadByte(bytes: Uint8Array): number {
  let line = 1;
  for (let start = 0; start < bytes.length; line++) {
    const end = bytes.indexOf(0x0a, start);
    if (decode(bytes.subarray(start, end === -1 ? bytes.length : end)) === null) return line;
    if (end === -1) break;
    start = end + 1;
  }
  return line;
}
