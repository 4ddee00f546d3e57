import { rename, rmdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { makeFolder, syncFolder } from "./durable-file.ts";
import { filesIn, ifThere, namesIn } from "./folder-content.ts";
import { parseCallName } from "./spool-places.ts";

/** Moves everything that was received for one warehouse to the folders of another; returns the number of answers. */
export async function moveSpool(root: string, from: string, to: string): Promise<number> {
  let answers = 0;
  for (const job of await namesIn(join(root, from))) {
    for (const shard of await namesIn(join(root, from, job))) {
      const [source, target] = [join(root, from, job, shard), join(root, to, job, shard)];
      await makeFolder(target);
      for (const path of await filesIn(source)) {
        await ifThere(rename(path, join(target, basename(path))));
        if (parseCallName(path)) answers += 1;
      }
      await syncFolder(target);
      await rmdir(source).catch(() => {});
    }
  }
  return answers;
}
