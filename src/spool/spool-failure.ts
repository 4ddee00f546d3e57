import { codeOf, messageOf, StopRunError } from "../errors.ts";

/** No room: on the disk, in the user's share of it, or in what one file may take. */
const NO_ROOM = ["ENOSPC", "EDQUOT", "EFBIG"];

/** Turns what the system says about the spool's folder into what the user has to do; ends the run. */
export function explainSpoolFailure(error: unknown, folder: string): StopRunError {
  if (NO_ROOM.includes(codeOf(error) ?? "")) {
    return new StopRunError(
      "spool_full",
      `The disk is full: received answers can't be kept in ${folder} until they are loaded, so nothing more is sent. ` +
        "Free some space there, or choose another data_dir, and run again.",
      { cause: error },
    );
  }
  return new StopRunError(
    "spool_failed",
    `Received answers can't be kept in ${folder} until they are loaded (${codeOf(error) ?? messageOf(error)}), so ` +
      "nothing more is sent. Mend the folder, or choose another data_dir, and run again.",
    { cause: error },
  );
}
