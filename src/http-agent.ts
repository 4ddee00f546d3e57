import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import type { buildConnector, Dispatcher, Pool, RequestInit, Response } from "undici";
import { adviceFor } from "./advice.ts";
import { codeOf, FixConfigurationError, messageOf } from "./errors.ts";

interface AgentOptions {
  readonly connections: number;
  /** Maximum time to connect, including TLS; the same again for a proxy. */
  readonly connectTimeoutMs: number;
  /** PEM file of the only trusted authorities; null for those of Node.js and NODE_EXTRA_CA_CERTS. */
  readonly caFile?: string | null;
}

/** Connections to other machines. They and undici, whose loading takes a tenth of a short command's time, are opened at the first request. */
export interface Agent {
  fetch(url: string, init: RequestInit): Promise<Response>;
  request(options: Dispatcher.RequestOptions): Promise<Dispatcher.ResponseData>;
  /** Waits for requests in flight. */
  close(): Promise<void>;
}

/** Failure to connect: the request was not sent. */
export class ConnectError extends Error {
  override readonly name = "ConnectError";
  /** Code of Node.js, or `PROXY_407` for a proxy that refused to connect. */
  readonly code: string;

  constructor(cause: Error) {
    super(messageOf(cause), { cause });
    const refusal = /^Proxy response \((\d+)\)/u.exec(cause.message)?.[1];
    this.code = refusal === undefined ? (codeOf(cause) ?? cause.name) : `PROXY_${refusal}`;
  }
}

/** Addresses of this machine, which no proxy can reach. */
const THIS_MACHINE = "localhost,127.0.0.1,::1";
const PROXIES = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"];

/**
 * Opens connections to other machines, tunneled through the proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name, if any.
 * Verifies certificates, whatever the environment says.
 */
export function openAgent(options: AgentOptions): Agent {
  const { connections, connectTimeoutMs, caFile = null } = options;
  for (const name of PROXIES) refuseUnusableProxy(name, process.env[name]);
  const verified = { rejectUnauthorized: true, allowH2: false, timeout: connectTimeoutMs };
  const trusting = { ...verified, ...(caFile === null ? {} : { ca: readCertificates(caFile) }) };
  let opened: Promise<Dispatcher> | null = null;
  const open = async () => {
    const { buildConnector, EnvHttpProxyAgent, Pool } = await import("undici");
    return new EnvHttpProxyAgent({
      connections,
      pipelining: 1,
      allowH2: false,
      connect: buildConnector(trusting),
      requestTls: trusting,
      proxyTls: verified,
      proxyTunnel: true,
      noProxy: unproxied(),
      // The options that this agent completes, by undici's types any object.
      factory: (origin, completed: Pool.Options) =>
        new Pool(origin, { ...completed, connect: marking(completed.connect as buildConnector.connector) }),
      clientFactory: (proxy, completed) =>
        new Pool(proxy, { ...completed, headersTimeout: connectTimeoutMs }),
    });
  };
  const dispatcher = () =>
    (opened ??= open().catch((error: unknown) => {
      opened = null;
      // Nothing was sent.
      throw new ConnectError(error instanceof Error ? error : new Error("undici can't be loaded"));
    }));
  return {
    async fetch(url, init) {
      const [{ fetch }, agent] = await Promise.all([import("undici"), dispatcher()]);
      return await fetch(url, { ...init, dispatcher: agent });
    },
    request: async (request) => (await dispatcher()).request(request),
    async close() {
      const last = opened;
      opened = null;
      await (await last)?.close();
    },
  };
}

/**
 * Address of the proxy through which {@link openAgent} reaches an address, or null; for a library that opens its own connections.
 * undici keeps its decision to itself, so its rules are repeated here.
 */
export function proxyOf(address: string): string | null {
  const { protocol, hostname, port } = new URL(address);
  const host = hostname.replace(/^\[(.+)\]$/u, "$1").replace(/\.$/u, "");
  const at = port || (protocol === "https:" ? "443" : "80");
  if (
    unproxied()
      .split(/[,\s]+/u)
      .some((entry) => covers(entry, host, at))
  )
    return null;
  const ofHttp = process.env["http_proxy"] ?? process.env["HTTP_PROXY"];
  const ofHttps = process.env["https_proxy"] ?? process.env["HTTPS_PROXY"];
  return (protocol === "https:" && ofHttps) || ofHttp || null;
}

function unproxied(): string {
  return `${THIS_MACHINE},${process.env["no_proxy"] ?? process.env["NO_PROXY"] ?? ""}`;
}

/** True if an entry of NO_PROXY (`host`, `.domain`, `*.domain`, `*`, each with or without `:port`) covers a host. */
function covers(entry: string, host: string, port: string): boolean {
  // The last case is an IPv6 address without brackets.
  const parts = /^\[(.+)\](?::(\d+))?$/u.exec(entry) ?? /^([^:]+)(?::(\d+))?$/u.exec(entry) ?? [entry, entry];
  const [, name = entry, only = port] = parts;
  if (name === "" || only !== port) return false;
  const domain = name
    .replace(/^\*?\./u, "")
    .replace(/(.)\.$/u, "$1")
    .toLowerCase();
  return domain === "*" || (host === domain && !entry.startsWith("*")) || host.endsWith(`.${domain}`);
}

/** Marks connection errors, because undici reports them like errors after sending. */
function marking(connect: buildConnector.connector): buildConnector.connector {
  return (options, callback) => {
    connect(options, (error, socket) => {
      if (error) callback(new ConnectError(error), null);
      else callback(null, socket);
    });
  };
}

/** Reads a PEM file; its first certificate must be valid. */
function readCertificates(path: string): string {
  try {
    const text = readFileSync(path, "utf8");
    new X509Certificate(text).toJSON();
    return text;
  } catch (error) {
    throw new FixConfigurationError(
      "unreadable_certificate",
      `No certificate can be read from ${path} (${codeOf(error) ?? "no PEM"}), which service.ca names.`,
      [],
      { cause: error },
    );
  }
}

/** True unless user or password have a `%` that stands for nothing. */
function hasReadableLogin({ username, password }: URL): boolean {
  try {
    decodeURIComponent(`${username}${password}`);
    return true;
  } catch {
    return false;
  }
}

function refuseUnusableProxy(name: string, address: string | undefined): void {
  if (!address) return;
  const url = URL.canParse(address) ? new URL(address) : null;
  if (url !== null && ["http:", "https:"].includes(url.protocol) && hasReadableLogin(url)) return;
  throw new FixConfigurationError(
    "unusable_proxy",
    `${name} is not the address of an HTTP proxy. ${adviceFor("unusable_proxy").next}`,
  );
}

/** Next step if a proxy or a certificate is in the way; null for other codes. `settings` can hold an authority's file, too. */
export function connectHint(code: string, ...settings: readonly string[]): string | null {
  if (code.startsWith("PROXY_")) {
    return "the proxy refuses to connect: check HTTPS_PROXY with its user and password, or add the host to NO_PROXY";
  }
  if (!/SELF_SIGNED|ISSUER|UNABLE_TO_VERIFY/u.test(code)) return null;
  const places = [...settings, "NODE_EXTRA_CA_CERTS"].join(" or ");
  return `its certificate is signed by an unknown authority: set ${places} to the authority's PEM file`;
}
