import { codeOf, FixConfigurationError, JobLockedError, messageOf, StopRunError } from "../../errors.ts";

/** Converts a failure of DuckDB or its files into an error with a remedy; returns other errors unchanged. */
export function explainDuckDb(error: unknown, name: string, path: string): unknown {
  const message = messageOf(error);
  const where = `Destination ${name} (${path})`;
  if (/lock on file|Conflicting lock|already attached/i.test(message)) {
    return new JobLockedError(`${where}: another process is publishing to it. Try again later.`);
  }
  if (codeOf(error) === "ENOSPC" || /no space left|disk space|Out of Memory Error/i.test(message)) {
    return new StopRunError(
      "destination_full",
      `${where} can't be written: no space or memory left. Free some and publish again.`,
      { cause: error },
    );
  }
  if (["MODULE_NOT_FOUND", "ERR_DLOPEN_FAILED"].includes(codeOf(error) ?? "")) {
    const hint = "Install person-etl without --omit=optional, on the system and architecture that runs it.";
    return refused(name, "DuckDB's package for this system is missing or can't be loaded", error, hint);
  }
  if (/not a valid DuckDB database|different version/i.test(message)) {
    return refused(name, "the file can't be opened as a DuckDB database", error);
  }
  if (["ENOENT", "EACCES", "EPERM", "ENOTDIR", "EISDIR", "EROFS"].includes(codeOf(error) ?? "")) {
    return refused(name, "the folder or file can't be written", error);
  }
  // Only the kind of error is kept: DuckDB's messages quote values.
  const [, kind] = /^([A-Z][A-Za-z ]{2,40} Error)\b/.exec(message) ?? [];
  if (kind === undefined) return error;
  return new StopRunError(
    "destination_failed",
    `${where}: DuckDB reported ${kind}. Try again; if it persists, run \`publish ${name} --full\`.`,
  );
}

function refused(
  name: string,
  message: string,
  cause: unknown,
  hint = "Correct the path or its permissions.",
): FixConfigurationError {
  const problem = { path: `publish.${name}.path`, message, hint };
  return new FixConfigurationError(
    "destination_refused",
    `Destination ${name} can't be used: ${message}.`,
    [problem],
    {
      cause,
    },
  );
}
