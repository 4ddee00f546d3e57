import { randomBytes } from "node:crypto";
import { constants, type FileHandle, open, rename, rm, writeFile } from "node:fs/promises";
import { codeOf } from "../../errors.ts";

/** Opens a regular file without other names, so that no soft or hard link leads root to another user's file. */
export async function openPlainFile(path: string, flags: number, mode?: number): Promise<FileHandle> {
  const file = await open(path, flags | constants.O_NOFOLLOW, mode);
  const found = await file.stat();
  if (found.isFile() && found.nlink === 1) return file;
  await file.close();
  throw new Error(`${path} must be a file with a single name, not a link`);
}

/** Trimmed text of a file; null if there is none. */
export async function readSmallFile(path: string): Promise<string | null> {
  try {
    await using file = await openPlainFile(path, constants.O_RDONLY);
    return (await file.readFile("utf8")).trim();
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

/** Writes a file atomically. */
export async function writeSmallFile(path: string, text: string, mode: number): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(temporary, `${text}\n`, { mode, flag: "wx", flush: true });
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
