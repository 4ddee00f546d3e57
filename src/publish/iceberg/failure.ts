import { codeOf, FixConfigurationError, JobLockedError, messageOf, StopRunError } from "../../errors.ts";
import { CatalogError, isConflict } from "./catalog.ts";
import { StorageError, UntrustedAddressError } from "./storage.ts";

interface NamedDestination {
  readonly name: string;
  /** Beginning of messages. */
  readonly where: string;
}

/** Error for tables or a catalog that can't be used as configured. */
export function refusal(
  { name, where }: NamedDestination,
  message: string,
  hint: string,
  cause?: unknown,
): FixConfigurationError {
  const problem = { path: `publish.${name}`, message, hint };
  return new FixConfigurationError("destination_refused", `${where}: ${message}. ${hint}`, [problem], {
    cause,
  });
}

/** Converts failures of the catalog, the object store and DuckDB into errors with a remedy; returns others unchanged. */
export function explainIceberg(error: unknown, destination: NamedDestination): unknown {
  const { name, where } = destination;
  const message = messageOf(error);
  const again = `Try again; if it persists, run \`publish ${name} --full\`.`;
  const later = "Run again later; everything committed is kept.";
  if (isConflict(error)) {
    const text = `${where}: other programs kept changing its tables. Publish again later; everything committed is kept.`;
    return new StopRunError("destination_busy", text, { cause: error });
  }
  if (error instanceof UntrustedAddressError) return refusal(destination, message, error.hint, error);
  if (error instanceof StorageError && [301, 307].includes(error.status)) {
    return refusal(destination, message, "Set s3_region to the region of the bucket.", error);
  }
  if (error instanceof CatalogError || error instanceof StorageError) {
    if ([401, 403].includes(error.status) && !error.isPassing) {
      return refusal(
        destination,
        `access is refused (${message})`,
        "Check the credentials and their privileges.",
        error,
      );
    }
    return error.isPassing
      ? new StopRunError("database_unreachable", `${where}: ${message}. ${later}`, { cause: error })
      : new StopRunError("destination_failed", `${where}: ${message}. ${again}`, { cause: error });
  }
  if (
    error instanceof Error &&
    (message === "fetch failed" || error.name === "TimeoutError" || message === "terminated")
  ) {
    const reason = codeOf(error.cause) ?? "no answer";
    return new StopRunError("database_unreachable", `${where} can't be reached (${reason}). ${later}`, {
      cause: error,
    });
  }
  if (codeOf(error) === "ENOSPC" || /no space left|disk space|Out of Memory Error/iu.test(message)) {
    return new StopRunError(
      "destination_full",
      `${where}: no space or memory left in data_dir. Free some and publish again.`,
    );
  }
  if (/lock on file|Conflicting lock/iu.test(message)) {
    return new JobLockedError(`${where}: another process is publishing to it. Try again later.`);
  }
  // Only the kind of error is kept: DuckDB's messages quote values.
  const [, kind] = /^([A-Z][A-Za-z ]{2,40} Error)\b/.exec(message) ?? [];
  if (kind === undefined) return error;
  return new StopRunError("destination_failed", `${where}: DuckDB reported ${kind}. ${again}`);
}
