import { FixConfigurationError, StopRunError } from "../../errors.ts";

/** Kind of a failed start. */
type StartupFailure =
  /** The port is taken: choose another one. */
  | "port_taken"
  /** A server, or children of a killed one, use the data: wait and retry. */
  | "data_in_use"
  | "disk_full"
  | "unknown";

/** Patterns in the server's log; the first match counts. */
const SIGNS: readonly (readonly [RegExp, StartupFailure])[] = [
  [/No space left on device|Check free disk space|ENOSPC|Disk quota exceeded|EDQUOT/i, "disk_full"],
  [/Address already in use|could not bind|could not create any TCP\/IP sockets/, "port_taken"],
  [
    /pre-existing shared memory block|lock file "[^"]*" already exists|is another (?:postmaster|server)/i,
    "data_in_use",
  ],
];

/** Classifies a failure by the server's log or a program's output. */
export function readStartupFailure(text: string): StartupFailure {
  return SIGNS.find(([sign]) => sign.test(text))?.[1] ?? "unknown";
}

/** Patterns of missing rights. */
const NO_RIGHT = /EACCES|EPERM|EROFS|ENOTDIR|Permission denied|Read-only file system/;

/** Number of lines of the log in a message. */
const SHOWN_LINES = 10;

/** Creates an error from the attempted step and the last lines of its output. */
export function describeFailure(tried: string, text: string, cause?: unknown): Error {
  const options = cause === undefined ? {} : { cause };
  const lastLines = text.trim().split("\n").slice(-SHOWN_LINES).join("\n");
  const failure = readStartupFailure(text);
  if (failure === "disk_full") {
    return new StopRunError(
      "disk_full",
      `The disk is full: ${tried} failed. Stored data is not lost: free at least 200 MB and run the command again.\n${lastLines}`,
      options,
    );
  }
  if (NO_RIGHT.test(text)) {
    return new FixConfigurationError(
      "embedded_unwritable",
      `${tried} failed. Allow this user to write there, or choose another data_dir.\n${lastLines}`,
      [],
      options,
    );
  }
  return new StopRunError("embedded_start_failed", `${tried} failed. Output:\n${lastLines}`, options);
}
