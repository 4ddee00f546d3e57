import { codeOf, FixConfigurationError, messageOf, StopRunError } from "../../errors.ts";

/** Where statements go, for the message. */
export interface Place {
  /** As a subject: `The warehouse (Postgres at …)`, `Connection crm`. */
  readonly name: string;
  /** Path in the configuration of its address. */
  readonly path: string;
}

/** Why a database can't be used; `mend` is what the user has to correct, null where it may come back by itself. */
interface Reason {
  readonly text: string;
  readonly mend: string | null;
}

const FOREIGN_AUTHORITY: Reason = {
  text: "its certificate is signed by an unknown authority",
  mend: "name the authority's certificate with sslrootcert=FILE in the address",
};
const SILENT: Reason = { text: "it doesn't answer", mend: null };
const CUT: Reason = { text: "the connection was cut", mend: null };

/** By SQLSTATE or system error. */
const REASONS: Readonly<Record<string, Reason>> = {
  ECONNREFUSED: { text: "nothing listens at that host and port", mend: null },
  ECONNRESET: CUT,
  EPIPE: CUT,
  ETIMEDOUT: SILENT,
  ENOENT: { text: "nothing listens at that socket", mend: null },
  EHOSTUNREACH: { text: "there is no way to that host", mend: null },
  ENETUNREACH: { text: "there is no way to that network", mend: null },
  ENOTFOUND: { text: "the host name is not known", mend: null },
  EAI_AGAIN: { text: "the host name can't be looked up at the moment", mend: null },
  "53300": { text: "it has no free connection left", mend: null },
  "57P01": { text: "it is shutting down", mend: null },
  "57P02": { text: "it has crashed and restarts", mend: null },
  "57P03": { text: "it is starting up or shutting down", mend: null },
  "57P05": CUT,
  "42501": {
    text: "this role lacks a right on a schema or table",
    mend: "`person-etl check` names what is missing, `migrate --print --grants` all rights",
  },
  "28P01": { text: "it refuses the password", mend: "correct user and password in the address" },
  "28000": { text: "it refuses this user", mend: "correct the user, or allow it in pg_hba.conf" },
  "3D000": { text: "that database does not exist", mend: "create it, or correct its name in the address" },
  DEPTH_ZERO_SELF_SIGNED_CERT: FOREIGN_AUTHORITY,
  SELF_SIGNED_CERT_IN_CHAIN: FOREIGN_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: FOREIGN_AUTHORITY,
  ERR_TLS_CERT_ALTNAME_INVALID: {
    text: "its certificate is for another host",
    mend: "use the host name that the certificate names",
  },
};

/** A failure of the connection or the server as an error that says what to do; any other error as it is. */
export function explainFailure(error: unknown, place: Place): unknown {
  if (codeOf(error) === "53100") {
    return new StopRunError(
      "disk_full",
      `The disk is full: ${place.name} can't store more. Everything committed before is kept; free some space there and run again.`,
      { cause: error },
    );
  }
  const reason = reasonOf(error);
  if (!reason) return error;
  const message = `${place.name} can't be used: ${reason.text}.`;
  if (reason.mend === null) {
    return new StopRunError(
      "database_unreachable",
      `${message} Check ${place.path} and that the server runs, then try again; everything committed before is kept.`,
      { cause: error },
    );
  }
  const problems = [{ path: place.path, message: reason.text, hint: reason.mend }];
  return new FixConfigurationError("database_refused", message, problems, { cause: error });
}

function reasonOf(error: unknown): Reason | null {
  const code = codeOf(error);
  // A file that the address names may be missing too.
  const isOfFile =
    code === "ENOENT" && !(error instanceof Error && "syscall" in error && error.syscall === "connect");
  if (isOfFile) return null;
  if (code !== null) return REASONS[code] ?? (code.startsWith("08") ? CUT : null);
  if (!(error instanceof Error)) return null;
  // The driver's own errors have no code.
  const message = messageOf(error);
  if (/timeout exceeded when trying to connect|connection timeout/i.test(message)) return SILENT;
  if (message.startsWith("Connection terminated") || message.includes("not queryable")) return CUT;
  if (!message.includes("does not support SSL")) return null;
  return {
    text: "it has no SSL",
    mend: "set sslmode=disable in the address, or switch SSL on in the server",
  };
}
