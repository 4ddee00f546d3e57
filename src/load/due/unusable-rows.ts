import { rejectCodes } from "../../schemas/reject-codes.ts";

/** Messages of rejects that are found before a call. */
export const REJECT_MESSAGES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(rejectCodes).flatMap(([code, { stage, means }]) =>
    stage === "input" ? [[code, means]] : [],
  ),
);

/** Reject codes of rows without a stored state. Every run finds them again and keeps one open reject each. */
export const WITHOUT_STATE: readonly string[] = ["missing_key", "key_too_long", "duplicate_key"];
