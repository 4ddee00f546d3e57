import type { LookupAnswer } from "../../src/load/lookups/lookup.ts";

/** Values that differ between two calls with the same answer; and the parsed result itself. */
const OF_THE_CALL = new Set(["callId", "apiRequestId", "answeredAt", "result"]);

/** Rows of an answer as text, with the values of the call separate. */
export function rowsText(answer: LookupAnswer): string {
  return JSON.stringify(answer, (key, value: unknown) => (OF_THE_CALL.has(key) ? undefined : value));
}

/** Content that no warehouse can store, or null. */
export function findUnstorable({ cells, extra, servicePid }: LookupAnswer): string | null {
  for (const cell of [...cells, extra, servicePid]) {
    if (cell === null) continue;
    if (typeof cell !== "string") return `a cell is ${typeof cell}`;
    if (cell.includes("\u0000")) return "a cell holds NUL";
    if (!cell.isWellFormed()) return "a cell holds half a surrogate pair";
  }
  return null;
}
