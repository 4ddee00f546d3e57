import { readFileSync } from "node:fs";
import { Client, type ClientConfig } from "pg";
import { codeOf, FixConfigurationError } from "../../errors.ts";
import { type PostgresAddress, readPostgresAddress } from "../../postgres-address.ts";

export interface PostgresTarget {
  /** Connection string; never part of a message. */
  readonly url: string;
  /** Reads the address for each new connection, so that a rotated password is found; only its password counts. */
  readonly readUrl?: (() => Promise<string>) | undefined;
  /** True if connections to another machine may do without verified TLS. */
  readonly allowInsecure?: boolean | undefined;
}

/** The server requests the password in a form that an eavesdropper could use. */
class UnsafePasswordRequest extends Error {
  override readonly name = "UnsafePasswordRequest";
  readonly code = "UNSAFE_PASSWORD_REQUEST";
}

/** Methods of the driver's client that answer password requests; it has no public setting for them. */
const ANSWER_CLEAR_TEXT = "_handleAuthCleartextPassword";
const ANSWER_MD5 = "_handleAuthMD5Password";

/** The part of the driver's client that its types omit. */
interface Connected {
  readonly connection: { readonly stream: { destroy(error: Error): void } };
}

/** Returns the driver's settings for a target: TLS by default, the password read for each connection. */
export function settingsOf(target: PostgresTarget): ClientConfig {
  const { url, readUrl, allowInsecure = false } = target;
  const address = readPostgresAddress(url);
  const { host, port, user, database, parameters } = address;
  return {
    application_name: "person-etl",
    ...parameters,
    host,
    port,
    ...(user === null ? {} : { user }),
    ...(database === null ? {} : { database }),
    ssl: tlsOf(address, allowInsecure),
    password: async () => readPostgresAddress(readUrl ? await readUrl() : url).password,
  };
}

function tlsOf({ tls, isLocal, files }: PostgresAddress, allowInsecure: boolean): ClientConfig["ssl"] {
  const mode = tls ?? (isLocal || allowInsecure ? "disable" : "verify");
  if (mode === "disable") return false;
  const pem = (name: string, parameter: string) => {
    const path = files.get(parameter);
    return path === undefined ? {} : { [name]: readPem(path) };
  };
  return {
    // Stated, so that no environment variable can switch verification off.
    rejectUnauthorized: mode === "verify",
    ...pem("ca", "sslrootcert"),
    ...pem("cert", "sslcert"),
    ...pem("key", "sslkey"),
  };
}

function readPem(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new FixConfigurationError(
      "unreadable_certificate",
      `The address of a Postgres database names the file ${path}, which can't be read (${codeOf(error)}).`,
      [],
      { cause: error },
    );
  }
}

/**
 * Returns a client class that, without verified TLS, never sends the password in clear text, and its MD5 hash only with
 * `allowInsecure`.
 */
export function clientFor({ allowInsecure = false }: PostgresTarget): typeof Client {
  return class SafeClient extends Client {
    constructor(config?: ClientConfig) {
      super(config);
      if (typeof config?.ssl === "object" && config.ssl.rejectUnauthorized === true) return;
      const refuse = (form: string) => () => {
        (this as unknown as Connected).connection.stream.destroy(
          new UnsafePasswordRequest(`The server asks for the password ${form} on an unencrypted connection.`),
        );
      };
      Object.assign(this, { [ANSWER_CLEAR_TEXT]: refuse("in clear text") });
      if (!allowInsecure) Object.assign(this, { [ANSWER_MD5]: refuse("as an MD5 hash") });
    }
  };
}
