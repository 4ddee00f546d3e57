import { outOfCapacity, outOfCredits } from "./faults/refusals.ts";
import type { Refusal } from "./http/outcome.ts";

/** Remaining capacity of the organization, and the 402 that refuses more (section 7.2). */
export interface Capacity {
  /** Records left; null without a limit. Goes down with what is billed. */
  recordsLeft: number | null;
  code: "insufficient_record_capacity" | "insufficient_credits";
}

/** Refuses records that a capacity can't cover; null if it can. */
export function checkRecords({ recordsLeft, code }: Capacity, records: number): Refusal | null {
  if (recordsLeft === null || records <= recordsLeft) return null;
  return code === "insufficient_credits" ? outOfCredits(recordsLeft) : outOfCapacity(recordsLeft, records);
}
