import { codeOf, messageOf, StopRunError } from "../errors.ts";

/** Error codes if the disk or quota is full, or the file too large. */
const DISK_FULL = ["ENOSPC", "EDQUOT", "EFBIG"];

/** Converts a failure of the spool's folder into an error that ends the run. */
export function explainSpoolFailure(error: unknown, folder: string): StopRunError {
  if (DISK_FULL.includes(codeOf(error) ?? "")) {
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
