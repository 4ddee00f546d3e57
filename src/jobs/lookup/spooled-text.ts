import type { Spool } from "../../spool/spool.ts";
import { countText } from "./estimate.ts";

/** Message about answers left in a spool; null if there are none. */
export function spooledText(job: string, { folder, calls }: Pick<Spool, "folder" | "calls">): string | null {
  if (calls === 0) return null;
  const [are, them] = calls === 1 ? ["is", "it"] : ["are", "them"];
  return (
    `${countText(calls, "received answer")} ${are} saved in ${folder}; the next run of ${job} loads ${them} without sending ` +
    "these records again."
  );
}
