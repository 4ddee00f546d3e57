import { rejectCodes } from "../../schemas/reject-codes.ts";

/** Why rows are rejected before they cost a call. */
export const REJECT_MESSAGES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(rejectCodes).flatMap(([code, { stage, means }]) =>
    stage === "input" ? [[code, means]] : [],
  ),
);

/** Codes of rows that can't have a state of their own: every night finds them again, and keeps one open reject for each. */
export const WITHOUT_STATE: readonly string[] = ["missing_key", "key_too_long", "duplicate_key"];
