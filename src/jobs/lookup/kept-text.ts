import { countText } from "./estimate.ts";

/** Says that answers wait on disk, and what becomes of them. @param count records null where nobody has counted them. */
export function keptText(
  job: string,
  folder: string,
  count: { readonly calls: number; readonly records: number | null },
): string {
  const { calls, records } = count;
  const what =
    countText(calls, "received answer") + (records === null ? "" : ` for ${countText(records, "record")}`);
  const [are, them] = calls === 1 ? ["is", "it"] : ["are", "them"];
  return `${what} ${are} safe in ${folder}; the next run of ${job} loads ${them} and sends none of these records again.`;
}
