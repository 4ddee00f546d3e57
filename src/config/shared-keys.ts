import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import type { Problems } from "./problems.ts";
import type { ConfigDocument } from "./schema/document.ts";

/** Warns of service account keys that other users can read; a missing file is reported when it is used. */
export async function warnOfSharedKeys(
  document: Pick<ConfigDocument, "connections" | "publish">,
  folder: string,
  warnings: Problems,
): Promise<void> {
  for (const section of ["connections", "publish"] as const) {
    for (const [name, entry] of Object.entries(document[section])) {
      if (!("credentials" in entry) || !entry.credentials.startsWith("file:")) continue;
      const found = await stat(resolve(folder, entry.credentials.slice("file:".length))).catch(() => null);
      if (found === null || process.platform === "win32" || (found.mode & 0o004) === 0) continue;
      warnings.add([section, name, "credentials"], {
        message: "names a file that other users can read",
        hint: "chmod 600 it",
      });
    }
  }
}
