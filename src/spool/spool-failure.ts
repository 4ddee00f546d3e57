import { codeOf, messageOf, StopRunError } from "../errors.ts";

/** Codes for no room: on the disk, in the user's quota, or in one file. */
const NO_ROOM = ["ENOSPC", "EDQUOT", "EFBIG"];

/** Explains a failure of the spool's folder as an error that ends the run. */
export function explainSpoolFailure(error: unknown, folder: string): StopRunError {
  if (NO_ROOM.includes(codeOf(error) ?? "")) {
    return new StopRunError(
      "spool_full",
      `The disk is full: received answers can't be written to ${folder}, so nothing more is sent. ` +
        "Free some space there, or choose another data_dir, and run again.",
      { cause: error },
    );
  }
  return new StopRunError(
    "spool_failed",
    `Received answers can't be written to ${folder} (${codeOf(error) ?? messageOf(error)}), so ` +
      "nothing more is sent. Fix the folder, or choose another data_dir, and run again.",
    { cause: error },
  );
}
