/** Encryption that an address asks for: verified TLS, TLS with any certificate, or none. */
type TlsMode = "verify" | "no-verify" | "disable";

/** A postgres:// address, taken apart. Holds the password: never part of a message. */
export interface PostgresAddress {
  readonly host: string;
  readonly port: number;
  /** Null if not stated. */
  readonly user: string | null;
  readonly database: string | null;
  readonly password: string;
  /** True for a socket or a loopback address: nothing leaves the machine. */
  readonly isLocal: boolean;
  /** Null if the address doesn't state it. */
  readonly tls: TlsMode | null;
  /** Paths of PEM files by parameter: `sslrootcert`, `sslcert`, `sslkey`. */
  readonly files: ReadonlyMap<string, string>;
  /** All other parameters, such as `options`. */
  readonly parameters: Readonly<Record<string, string>>;
}

const FILES = ["sslrootcert", "sslcert", "sslkey"];
const READ = ["host", "port", "user", "database", "password", "ssl", "sslmode", ...FILES];
/** Parameters that only refine `sslmode` in other programs. */
const LEFT_OUT = ["sslnegotiation", "uselibpqcompat"];

/** Values of `sslmode` and `ssl`; all others mean verified TLS, as in node-postgres. */
const MODES: ReadonlyMap<string, TlsMode> = new Map([
  ["disable", "disable"],
  ["0", "disable"],
  ["false", "disable"],
  ["no-verify", "no-verify"],
]);

/** Parses an address; null if invalid. libpq allows a user without a host, as in `postgres://me@/db?host=/run/postgresql`. */
export function parsePostgresUrl(address: string): URL | null {
  return URL.parse(address.replace(/^(postgres(?:ql)?:\/\/[^/?#]*@)(?=[/?]|$)/, "$1localhost"));
}

/** Reads a valid postgres:// address; without a host it means this machine. */
export function readPostgresAddress(address: string): PostgresAddress {
  const url = parsePostgresUrl(address);
  if (!url) throw new TypeError("not the address of a Postgres database");
  const query = new Map(url.searchParams);
  const stated = (name: string, part: string) => query.get(name) || decode(part) || null;
  const mode = query.get("sslmode") || query.get("ssl");
  const host = stated("host", url.hostname.replace(/^\[(.+)\]$/, "$1")) ?? "localhost";
  return {
    host,
    port: Number(stated("port", url.port) ?? 5432),
    user: stated("user", url.username),
    database: stated("database", url.pathname.slice(1)),
    password: stated("password", url.password) ?? "",
    isLocal: isLocalHost(host),
    tls: mode ? (MODES.get(mode) ?? "verify") : null,
    files: new Map([...query].filter(([name]) => FILES.includes(name))),
    parameters: Object.fromEntries([...query].filter(([name]) => ![...READ, ...LEFT_OUT].includes(name))),
  };
}

/** Decodes percent-encoded text; other text is returned unchanged. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** True for a socket folder, this machine's name and its loopback addresses. */
export function isLocalHost(host: string): boolean {
  return /^(?:\/.*|localhost|.+\.localhost|127(?:\.\d+){3}|::1)$/.test(host);
}
