import { randomBytes } from "node:crypto";
import { link, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { codeOf, FixConfigurationError } from "../../errors.ts";

/** Error of a configuration that exists already. */
export function fileExists(file: string, cause?: unknown): FixConfigurationError {
  return new FixConfigurationError(
    "file_exists",
    `${file} already exists and was not changed. Add an input with --add-input NAME, or write another file with --config FILE.`,
    [],
    cause === undefined ? {} : { cause },
  );
}

/** Writes a new file atomically, readable only by its owner; never replaces one. */
export async function writeNewFile(file: string, text: string): Promise<void> {
  const draft = draftOf(file);
  try {
    await writeFile(draft, text, { mode: 0o600, flag: "wx" });
    await link(draft, file);
  } catch (error) {
    throw codeOf(error) === "EEXIST" ? fileExists(file, error) : error;
  } finally {
    await rm(draft, { force: true });
  }
}

/** Replaces the text of a file atomically; keeps its mode, and links to it. */
export async function replaceText(file: string, text: string): Promise<void> {
  const target = await realpath(file);
  const { mode } = await stat(target);
  const draft = draftOf(target);
  try {
    await writeFile(draft, text, { mode: mode & 0o777, flag: "wx" });
    await rename(draft, target);
  } finally {
    await rm(draft, { force: true });
  }
}

function draftOf(file: string): string {
  return `${file}.${randomBytes(4).toString("hex")}`;
}
