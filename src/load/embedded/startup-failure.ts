import { FixConfigurationError, StopRunError } from "../../errors.ts";

/** What a failed start calls for. */
export type StartupFailure =
  /** Something else listens on the port: choose another. */
  | "port_taken"
  /** A server, or what is left of a killed one, still holds the data: wait and try again. */
  | "data_in_use"
  | "disk_full"
  | "other_version"
  | "unknown";

/** What the server's log says, first match counts. */
const SIGNS: readonly (readonly [RegExp, StartupFailure])[] = [
  [/No space left on device|Check free disk space|ENOSPC|Disk quota exceeded|EDQUOT/i, "disk_full"],
  [/Address already in use|could not bind|could not create any TCP\/IP sockets/, "port_taken"],
  [
    /pre-existing shared memory block|lock file "[^"]*" already exists|is another (?:postmaster|server)/i,
    "data_in_use",
  ],
  [/database files are incompatible with server/, "other_version"],
];

/** Reads from the server's log, or from a program's output, why a start failed. */
export function readStartupFailure(text: string): StartupFailure {
  return SIGNS.find(([sign]) => sign.test(text))?.[1] ?? "unknown";
}

/** Signs of a folder that this user, or the server's, can't use. */
const NO_RIGHT = /EACCES|EPERM|EROFS|ENOTDIR|Permission denied|Read-only file system/;

/** Lines of the server's log shown to the user. */
const SHOWN_LINES = 10;

/** The error for something that failed for good: what was tried, the last lines of what came back, what to do. */
export function describeFailure(tried: string, text: string, cause?: unknown): Error {
  const options = cause === undefined ? {} : { cause };
  const lastLines = text.trim().split("\n").slice(-SHOWN_LINES).join("\n");
  const failure = readStartupFailure(text);
  if (failure === "disk_full") {
    return new StopRunError(
      "disk_full",
      `The disk is full: ${tried} failed. Nothing already stored is lost: free some space (200 MB at least) and run the same command again.\n${lastLines}`,
      options,
    );
  }
  if (failure === "other_version") {
    return new FixConfigurationError(
      "embedded_version",
      `${tried} failed: the data was made by another version of Postgres.\n${lastLines}`,
      [],
      options,
    );
  }
  if (NO_RIGHT.test(text)) {
    return new FixConfigurationError(
      "embedded_unwritable",
      `${tried} failed. Give this user the right to write there, or choose another data_dir.\n${lastLines}`,
      [],
      options,
    );
  }
  return new StopRunError("embedded_start_failed", `${tried} failed. What came back:\n${lastLines}`, options);
}
