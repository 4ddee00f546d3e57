import type { Spool } from "../../spool/spool.ts";
import { countText } from "./estimate.ts";

/** Describes the answers that are left in a spool, for the user; null when there are none. */
export function spooledText(job: string, { folder, calls }: Pick<Spool, "folder" | "calls">): string | null {
  if (calls === 0) return null;
  const [are, them] = calls === 1 ? ["is", "it"] : ["are", "them"];
  return (
    `${countText(calls, "received answer")} ${are} saved in ${folder}; the next run of ${job} loads ${them} and sends ` +
    "none of these records again."
  );
}
