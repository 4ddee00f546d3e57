import { randomBytes } from "node:crypto";
import { link, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { codeOf } from "../errors.ts";
import { ifThere } from "./folder-content.ts";

const fileIn = (dataDir: string) => join(dataDir, "disk-id");

/** ID of the disk of a data_dir; null if it never had a spool. */
export async function readDiskId(dataDir: string): Promise<string | null> {
  return ifThere(readFile(fileIn(dataDir), "utf8"));
}

/** Like {@link readDiskId}, but makes the ID of a new folder. */
export async function makeDiskId(dataDir: string): Promise<string> {
  const known = await readDiskId(dataDir);
  if (known !== null) return known;
  const id = randomBytes(8).toString("hex");
  const temporary = `${fileIn(dataDir)}.${id}`;
  await writeFile(temporary, id, { flag: "wx", mode: 0o600 });
  try {
    // Unlike a rename, it doesn't replace the ID that another process made meanwhile.
    await link(temporary, fileIn(dataDir));
    return id;
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
    return makeDiskId(dataDir);
  } finally {
    await rm(temporary, { force: true });
  }
}
