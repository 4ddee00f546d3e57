import { rm } from "node:fs/promises";
import { filesIn } from "./folder-content.ts";

/** Removes files that could not be believed, which nobody can tell whom they are about; returns how many. */
export async function removeDamaged(folder: string): Promise<number> {
  const files = await filesIn(folder);
  for (const path of files) await rm(path, { force: true });
  return files.length;
}
