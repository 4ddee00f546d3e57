import type { LookupAnswer } from "../../src/load/answers/answer.ts";

/** What differs between two calls that answered the same; and the parsed result itself. */
const OF_THE_CALL = new Set(["callId", "apiRequestId", "answeredAt", "result"]);

/** Everything that an answer leaves for the warehouse, as text; what belongs to the call apart. */
export function rowsText(answer: LookupAnswer): string {
  return JSON.stringify(answer, (key, value: unknown) => (OF_THE_CALL.has(key) ? undefined : value));
}

/** What no warehouse could store, or null. */
export function findUnstorable({ cells, extra, servicePid }: LookupAnswer): string | null {
  for (const cell of [...cells, extra, servicePid]) {
    if (cell === null) continue;
    if (typeof cell !== "string") return `a cell is ${typeof cell}`;
    if (cell.includes("\u0000")) return "a cell holds NUL";
    if (!cell.isWellFormed()) return "a cell holds half a surrogate pair";
  }
  return null;
}
