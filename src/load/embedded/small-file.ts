import { chown, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { randomBytes } from "node:crypto";
import { dirname } from "node:path";
import { codeOf } from "../../errors.ts";
import { isRoot } from "./server-user.ts";

/** The trimmed text of a file, or null if there is none. */
export async function readSmallFile(path: string): Promise<string | null> {
  try {
    return (await readFile(path, "utf8")).trim();
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

/** Writes a file whole or not at all. It belongs to whom its folder belongs, also when root writes it. */
export async function writeSmallFile(path: string, text: string, mode: number): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(temporary, `${text}\n`, { mode, flag: "wx", flush: true });
    await chownLikeFolder(temporary);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Keeps what root makes in a user's folder usable for that user. */
export async function chownLikeFolder(path: string): Promise<void> {
  if (!isRoot()) return;
  const { uid, gid } = await stat(dirname(path));
  await chown(path, uid, gid);
}
