import { codeOf, FixConfigurationError, messageOf, StopRunError } from "../errors.ts";

/** Why a database could not be used, in words; `mend` is what the user has to correct, null when it may come back. */
interface Reason {
  readonly text: string;
  readonly mend: string | null;
}

/** By SQLSTATE or system error. */
const REASONS: Readonly<Record<string, Reason>> = {
  ECONNREFUSED: { text: "nothing listens at that host and port", mend: null },
  ECONNRESET: { text: "the connection was cut", mend: null },
  EPIPE: { text: "the connection was cut", mend: null },
  ETIMEDOUT: { text: "it doesn't answer", mend: null },
  EHOSTUNREACH: { text: "there is no way to that host", mend: null },
  ENETUNREACH: { text: "there is no way to that network", mend: null },
  ENOTFOUND: { text: "the host name is not known", mend: null },
  EAI_AGAIN: { text: "the host name can't be looked up at the moment", mend: null },
  "53300": { text: "it has no free connection left", mend: null },
  "57P03": { text: "it is starting up or shutting down", mend: null },
  "57P01": { text: "it is shutting down", mend: null },
  "28P01": { text: "it refuses the password", mend: "correct user and password in the address" },
  "28000": { text: "it refuses this user", mend: "correct the user, or allow it in pg_hba.conf" },
  "3D000": { text: "that database does not exist", mend: "create it, or correct its name in the address" },
  DEPTH_ZERO_SELF_SIGNED_CERT: {
    text: "its certificate is self-signed",
    mend: "name its certificate with sslrootcert=FILE in the address",
  },
  SELF_SIGNED_CERT_IN_CHAIN: {
    text: "its certificate is signed by an unknown authority",
    mend: "name the authority's certificate with sslrootcert=FILE in the address",
  },
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: {
    text: "its certificate is signed by an unknown authority",
    mend: "name the authority's certificate with sslrootcert=FILE in the address",
  },
  ERR_TLS_CERT_ALTNAME_INVALID: {
    text: "its certificate is for another host",
    mend: "use the host name that the certificate names",
  },
};

/** A failure to connect as an error that says what to do; null when the error is about something else. */
export function explainConnectFailure(error: unknown, database: string): Error | null {
  const reason = reasonOf(error);
  if (!reason) return null;
  const message = `${database} can't be used: ${reason.text}.`;
  if (reason.mend === null) {
    const advice =
      "Check the address and that the server runs, then try again. Nothing that was committed is lost.";
    return new StopRunError("database_unreachable", `${message} ${advice}`, { cause: error });
  }
  const problems = [{ path: "warehouse.url", message: reason.text, hint: reason.mend }];
  return new FixConfigurationError("database_refused", message, problems, { cause: error });
}

function reasonOf(error: unknown): Reason | null {
  const code = codeOf(error);
  const known = code === null ? undefined : REASONS[code];
  if (known) return known;
  if (code !== null || !(error instanceof Error)) return null;
  // The driver's own errors have no code.
  const message = messageOf(error);
  if (/timeout exceeded when trying to connect|connection timeout/i.test(message))
    return REASONS["ETIMEDOUT"] ?? null;
  if (message.startsWith("Connection terminated")) return REASONS["ECONNRESET"] ?? null;
  if (/does not support SSL/.test(message)) {
    return {
      text: "it has no SSL",
      mend: "set sslmode=disable in the address, or switch SSL on in the server",
    };
  }
  return null;
}
