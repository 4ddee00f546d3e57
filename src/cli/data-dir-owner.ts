import { lstat, stat } from "node:fs/promises";
import { FixConfigurationError } from "../errors.ts";

/** Refuses, as root, a data_dir of another user, whose links could lead writes to any file of the system. */
export async function refuseForeignFolder(dataDir: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  for (const look of [lstat, stat]) {
    const found = await look(dataDir).catch(() => null);
    if (found === null || found.uid === 0) continue;
    throw new FixConfigurationError(
      "data_dir_owner",
      `data_dir ${dataDir} belongs to another user (uid ${found.uid}), and root uses only folders of root.`,
      [
        {
          path: "data_dir",
          message: `belongs to uid ${found.uid}`,
          hint: "run person-etl as that user, or choose another data_dir",
        },
      ],
    );
  }
}
