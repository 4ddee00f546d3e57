import { lstat, stat } from "node:fs/promises";

/**
 * Says, as root, why another user can change the names in a folder: links there could lead root's writes to any file of the system. Null if nobody can,
 * or if the folder doesn't exist yet.
 */
export async function otherWriterOf(folder: string): Promise<string | null> {
  if (process.getuid?.() !== 0) return null;
  for (const look of [lstat, stat]) {
    const found = await look(folder).catch(() => null);
    if (found === null) continue;
    if (found.uid !== 0) return `belongs to another user (uid ${found.uid})`;
    if (!found.isSymbolicLink() && (found.mode & 0o022) !== 0) return "can be written by other users";
  }
  return null;
}
