import { setTimeout as delay } from "node:timers/promises";
import {
  codeOf,
  FixConfigurationError,
  messageOf,
  nameDatabase,
  sqlStateOf,
  StopRunError,
} from "../../errors.ts";

export interface NamedDatabase {
  /** As a subject: `The warehouse (Postgres at …)`, `Connection crm`. */
  readonly name: string;
  /** Configuration path of its address. */
  readonly path: string;
}

/** Cause of a failure; `fix` is the user's remedy, null if the database may recover on its own. */
interface Reason {
  readonly text: string;
  readonly fix: string | null;
}

const FOREIGN_AUTHORITY: Reason = {
  text: "its certificate is signed by an unknown authority",
  fix: "add the authority's certificate to the address: sslrootcert=FILE",
};

const SILENT: Reason = { text: "it does not respond", fix: null };
const CUT: Reason = { text: "the connection was lost", fix: null };

/** Timeouts of the driver: of a pool's connection, a single one, and a statement. */
const SILENCE =
  /timeout exceeded when trying to connect|connection timeout|timeout expired|query read timeout/i;

/** SQLSTATE of a change in a read-only transaction. */
export const READ_ONLY = "25006";

/** By SQLSTATE or system error. */
const REASONS: Readonly<Record<string, Reason>> = {
  ECONNREFUSED: { text: "nothing listens on that host and port", fix: null },
  ECONNRESET: CUT,
  EPIPE: CUT,
  ETIMEDOUT: SILENT,
  ENOENT: { text: "nothing listens on that socket", fix: null },
  EHOSTUNREACH: { text: "no route to that host", fix: null },
  ENETUNREACH: { text: "no route to that network", fix: null },
  ENOTFOUND: { text: "unknown host name", fix: null },
  EAI_AGAIN: { text: "the host name can't be resolved at the moment", fix: null },
  [READ_ONLY]: {
    text: "it accepts no changes: it is a standby, or default_transaction_read_only is on",
    fix: null,
  },
  "53300": { text: "it has no free connections", fix: null },
  "57P01": { text: "it is shutting down", fix: null },
  "57P02": { text: "it crashed and is restarting", fix: null },
  "57P03": { text: "it is starting up or shutting down", fix: null },
  "57P05": CUT,
  "42501": {
    text: "the role lacks a privilege on a schema or table",
    fix: "`person-etl check` reports missing privileges, `migrate --print --grants` prints all of them",
  },
  "28P01": { text: "the password was rejected", fix: "correct user and password in the address" },
  "28000": { text: "the user was rejected", fix: "correct the user, or allow it in pg_hba.conf" },
  "3D000": { text: "that database does not exist", fix: "create it, or correct its name in the address" },
  DEPTH_ZERO_SELF_SIGNED_CERT: FOREIGN_AUTHORITY,
  SELF_SIGNED_CERT_IN_CHAIN: FOREIGN_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: FOREIGN_AUTHORITY,
  UNSAFE_PASSWORD_REQUEST: {
    text: "it asks for the password in clear text or as an MD5 hash on an unencrypted connection",
    fix: "use scram-sha-256 or TLS (sslmode=verify-full); allow_insecure: true permits MD5, never clear text",
  },
  ERR_TLS_CERT_ALTNAME_INVALID: {
    text: "its certificate is for another host",
    fix: "use the host name of the certificate",
  },
};

/** The database can't be reached, and may recover on its own. */
export class DatabaseUnreachableError extends StopRunError {
  /** Configuration path of its address. */
  readonly path: string;
  constructor({ name, path }: NamedDatabase, reason: string, cause: unknown) {
    const next = `Check ${path} and that the server is running, then run again; everything committed is kept.`;
    super("database_unreachable", `${name} can't be used: ${reason}. ${next}`, { cause });
    this.path = path;
  }
}

/** Converts a failure of the connection or the server into an error with a remedy; returns other errors unchanged. */
export function explainFailure(error: unknown, place: NamedDatabase): unknown {
  if (codeOf(error) === "53100") {
    return new StopRunError(
      "disk_full",
      `The disk is full: ${place.name} can't store more. Everything committed is kept; free some space and run again.`,
      { cause: error },
    );
  }
  const failure = explainServerFailure(error, place);
  if (failure) return failure;
  const reason = reasonOf(error);
  if (!reason) {
    nameDatabase(error, place.name);
    return error;
  }
  if (reason.fix === null) return new DatabaseUnreachableError(place, reason.text, error);
  const message = `${place.name} can't be used: ${reason.text}.`;
  const problems = [{ path: place.path, message: reason.text, hint: reason.fix }];
  return new FixConfigurationError("database_refused", message, problems, { cause: error });
}

/** Next steps after failures of the server itself, by class of SQLSTATE. Their messages have no values of rows. */
const SERVER_FAULTS: Readonly<Record<string, string>> = {
  "53": "Give the server more memory, disk space or connections, or close other sessions",
  "58": "The server can't use its own files, for example after its programs were replaced: restart or repair it",
  F0: "Correct the configuration file of the server",
  XX: "A table or an index may be damaged: see the server's log first, then reindex or restore a backup",
};

/** Explains a failure of the server itself, which no statement can avoid; null for other errors. */
function explainServerFailure(error: unknown, place: NamedDatabase): StopRunError | null {
  const state = sqlStateOf(error);
  const next = state === null ? undefined : SERVER_FAULTS[state.slice(0, 2)];
  if (next === undefined || reasonOf(error)) return null;
  return new StopRunError(
    "database_failed",
    `${place.name} failed: ${messageOf(error)} (SQLSTATE ${state}). ${next}, then run again. Completed work is kept.`,
    { cause: error },
  );
}

export async function explained<Result>(
  explain: (error: unknown) => unknown,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw explain(error);
  }
}

/** Converts the error of a change where we only read into one about the configuration's SQL; returns other errors unchanged. */
export function explainWriting(error: unknown): unknown {
  if (codeOf(error) !== READ_ONLY) return error;
  const message = `SQL in the configuration tries to write to a database (${messageOf(error)}). It may only read.`;
  return new FixConfigurationError("inputs", message, [], { cause: error });
}

/** Reason of a failure that the database may recover from; null for other errors. */
export function outageOf(error: unknown): string | null {
  const reason = reasonOf(error);
  return reason?.fix === null ? reason.text : null;
}

function reasonOf(error: unknown): Reason | null {
  const code = codeOf(error);
  // ENOENT can also mean that a file named in the address is missing.
  const isOfFile =
    code === "ENOENT" && !(error instanceof Error && "syscall" in error && error.syscall === "connect");
  if (isOfFile) return null;
  if (code !== null) return REASONS[code] ?? (code.startsWith("08") ? CUT : null);
  if (!(error instanceof Error)) return null;
  // Errors of the driver itself have no code.
  const message = messageOf(error);
  if (SILENCE.test(message)) return SILENT;
  if (message.startsWith("Connection terminated") || message.includes("not queryable")) return CUT;
  if (!message.includes("does not support SSL")) return null;
  return {
    text: "it doesn't support TLS, which is the default for other machines",
    fix: "enable TLS on the server; or, in a network of your own, set allow_insecure: true next to the address",
  };
}

/** Codes of a conflict with another loader, after which the same commit can succeed when retried. */
const CONFLICTS: ReadonlySet<string> = new Set(["23503", "23505", "40001", "40P01", "55P03"]);

/** Data that the database rejects: out of range, not representable, too deep, too long for an index. */
const DATA_FAULT = /^(22...|54000|54001)$/;

/** Refusals that no other value would avoid: a constraint, a column or a trigger that isn't ours. */
const TABLE_FAULT = /^(23...|42...|P0001)$/;

/** True if a value of the data is invalid, so that other rows can be loaded without it. */
export function isDataFault(error: unknown): boolean {
  return DATA_FAULT.test(codeOf(error) ?? "");
}

/** True if a constraint, a column or a trigger refuses the row, whatever its other values. */
export function isTableFault(error: unknown): boolean {
  return TABLE_FAULT.test(codeOf(error) ?? "");
}

/** Maximum attempts after conflicts. */
const MAX_TRIES = 8;
/** Maximum attempts after lost connections; for longer outages the caller waits. */
const MAX_LOST_TRIES = 4;

/** Retries work after conflicts and lost connections. `attempt` is 1-based. */
export async function withRetries<Result>(work: (attempt: number) => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work(attempt);
    } catch (error) {
      const isConflict = CONFLICTS.has(codeOf(error) ?? "");
      const isLost = outageOf(error) !== null;
      if (attempt >= (isConflict ? MAX_TRIES : MAX_LOST_TRIES) || !(isConflict || isLost)) throw error;
      await delay(isConflict ? 10 * attempt : 125 * 2 ** attempt);
    }
  }
}
