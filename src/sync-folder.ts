import { open } from "node:fs/promises";
import { codeOf } from "./errors.ts";

/** Codes of file systems that can't sync folders, such as some network ones. */
const NO_FOLDER_SYNC = ["EINVAL", "ENOTSUP", "EBADF"];

/** Makes renames in a folder survive a power failure. */
export async function syncFolder(folder: string): Promise<void> {
  // Windows can't open folders; its file system keeps names in a journal.
  if (process.platform === "win32") return;
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } catch (error) {
    if (!NO_FOLDER_SYNC.includes(codeOf(error) ?? "")) throw error;
  } finally {
    await handle.close();
  }
}
