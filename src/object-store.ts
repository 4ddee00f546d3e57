import { AwsV4Signer } from "aws4fetch";
import { createWriteStream, openAsBlob } from "node:fs";
import { copyFile, mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, normalize, sep } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { setTimeout as delay } from "node:timers/promises";
import type { BodyInit, Response } from "undici";
import { codeOf } from "./errors.ts";
import { type Agent, openAgent } from "./http-agent.ts";
import { syncFolder } from "./sync-folder.ts";

/** A secret that is read when it is needed. */
export interface SecretValue {
  read(): Promise<string>;
}

/** Files by their full addresses: `s3://bucket/path` or `s3a:`, `gs://bucket/path`, `file:///path`, and for reading `https://…`. */
export interface Storage {
  read(address: string): Promise<Buffer>;
  write(address: string, content: Buffer): Promise<void>;
  /** Copies an object to a local file. */
  download(address: string, file: string): Promise<void>;
  /** Copies a local file to an object. */
  upload(file: string, address: string): Promise<void>;
  /** Lists all objects in a folder and below. */
  list(folder: string): Promise<readonly StoredObject[]>;
  /** Version of an object, which changes with its content; null if the server names none. */
  readVersion(address: string): Promise<string | null>;
  /** Removes an object; does nothing if it is missing. */
  remove(address: string): Promise<void>;
}

export interface StoredObject {
  readonly address: string;
  /** Time at which it was written. */
  readonly writtenMs: number;
  /** As {@link Storage.readVersion}. */
  readonly version: string | null;
}

export interface StorageOptions {
  /** Folder that holds all local files; null if no table may be on the disk. */
  readonly localFolder: string | null;
  /** Address of an S3 service other than Amazon's. */
  readonly s3Endpoint: string | null;
  readonly s3Region: string | null;
  /** Keys of S3, or HMAC keys of GCS; null to use what the catalog grants. */
  readonly accessKeyId: SecretValue | null;
  readonly secretAccessKey: SecretValue | null;
  /** Bearer token for `https://` addresses. */
  readonly webToken?: SecretValue | null;
}

const CONNECT_TIMEOUT_MS = 10_000;
const TRANSFER_TIMEOUT_MS = 600_000;
const MOST_TRIES = 4;
const FIRST_PAUSE_MS = 200;
const GCS = "https://storage.googleapis.com";

/** A failed request of an object store. */
export class StorageError extends Error {
  override readonly name = "StorageError";
  readonly status: number;
  /** True if the same request may succeed later, or with new keys of the catalog. */
  readonly isPassing: boolean;
  constructor(status: number, tried: string, code: string) {
    super(`${tried} returned ${status} ${code}`);
    this.status = status;
    this.isPassing = status >= 500 || status === 429 || code === "ExpiredToken";
  }
}

/** An address of the catalog at which files are neither read nor written. */
export class UntrustedAddressError extends Error {
  override readonly name = "UntrustedAddressError";
  readonly hint: string;
  constructor(message: string, hint: string) {
    super(message);
    this.hint = hint;
  }
}

/** A request of an object store without a response. */
export class UnreachableError extends Error {
  override readonly name = "UnreachableError";
  constructor(url: string, cause: unknown) {
    const isTimeout = cause instanceof Error && cause.name === "TimeoutError";
    const reason =
      codeOf(cause instanceof Error ? cause.cause : null) ?? (isTimeout ? "timeout" : "no response");
    super(`${new URL(url).host} can't be reached (${reason})`, { cause });
  }
}

export const isMissingFile = (error: unknown) =>
  (error instanceof StorageError && error.status === 404) || codeOf(error) === "ENOENT";

/** Opens the store of a table. `granted` is the table's configuration from the catalog. */
export function openStorage(
  options: StorageOptions,
  granted: Readonly<Record<string, string>>,
  agent: Agent,
): Storage {
  const objects = objectStore(options, granted, agent);
  const localPath = (address: string) => localPathIn(options.localFolder, address);
  return {
    read: (address) => (isLocal(address) ? readFile(localPath(address)) : objects.read(address)),
    async write(address, content) {
      if (!isLocal(address)) return objects.put(address, new Blob([new Uint8Array(content)]));
      await keepLocal(localPath(address), (path) => writeFile(path, content, { mode: 0o600 }));
    },
    async download(address, file) {
      if (isLocal(address)) await copyFile(localPath(address), file);
      else await objects.download(address, file);
    },
    async upload(file, address) {
      if (!isLocal(address)) return objects.put(address, await openAsBlob(file));
      await keepLocal(localPath(address), (path) => copyFile(file, path));
    },
    list: (folder) => (isLocal(folder) ? listFolder(localPath(folder)) : objects.list(folder)),
    readVersion: (address) => objects.readVersion(address),
    async remove(address) {
      if (isLocal(address)) await rm(localPath(address), { force: true });
      else await objects.remove(address);
    },
  };
}

const isLocal = (address: string) => address.startsWith("file:");

/** One name for all addresses of an object: engines write `file:/path` and `file:///path`, `s3a:` and `s3:`. */
export function placeOf(address: string): string {
  return isLocal(address) ? normalize(fileURLToPath(address)) : address.replace(/^s3[an]:/u, "s3:");
}

/** Path of a local file. Addresses come from the catalog, so others than in the configured folder are refused. */
function localPathIn(folder: string | null, address: string): string {
  // In an address, they would end the path.
  if (/[#?]/u.test(address)) {
    const message = `the catalog puts files in ${address}, with # or ? in the path`;
    throw new UntrustedAddressError(message, "Use another folder.");
  }
  const path = normalize(fileURLToPath(address));
  if (folder === null || !path.startsWith(folder.endsWith(sep) ? folder : `${folder}${sep}`)) {
    throw new UntrustedAddressError(
      `the catalog puts files in ${path}, outside local_folder`,
      "Set local_folder to the folder of the catalog's warehouse, or use another warehouse.",
    );
  }
  return path;
}

/** Writes a file that only this user can read, and waits until it is on the disk. */
async function keepLocal(path: string, write: (path: string) => Promise<void>): Promise<void> {
  const folder = dirname(path);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const part = `${path}.part`;
  await write(part);
  await using file = await open(part, "r");
  await file.chmod(0o600);
  await file.sync();
  await rename(part, path);
  await syncFolder(folder);
}

/** Opens the connections that stores share. */
export function openStorageAgent(): Agent {
  return openAgent({ connections: 8, connectTimeoutMs: CONNECT_TIMEOUT_MS });
}

async function listFolder(folder: string): Promise<readonly StoredObject[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(unlessMissing);
  const found: StoredObject[] = [];
  for (const entry of entries ?? []) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    // Another process may have deleted it.
    const { mtimeMs: writtenMs } = (await stat(path).catch(unlessMissing)) ?? {};
    if (writtenMs !== undefined) found.push({ address: pathToFileURL(path).href, writtenMs, version: null });
  }
  return found;
}

function unlessMissing(error: unknown): null {
  if (codeOf(error) === "ENOENT") return null;
  throw error;
}

interface StorageRequest {
  readonly method: string;
  /** Object, or any address in the bucket with a query. */
  readonly address: string;
  readonly query?: string;
  readonly body?: BodyInit;
}

/** The XML interface of S3, which GCS has, too. */
function objectStore(options: StorageOptions, granted: Readonly<Record<string, string>>, agent: Agent) {
  async function keysOf() {
    const [own, ownSecret] = [await options.accessKeyId?.read(), await options.secretAccessKey?.read()];
    if (own && ownSecret) return { accessKeyId: own, secretAccessKey: ownSecret };
    const [accessKeyId, secretAccessKey] = [granted["s3.access-key-id"], granted["s3.secret-access-key"]];
    if (!accessKeyId || !secretAccessKey) return null;
    const sessionToken = granted["s3.session-token"];
    return { accessKeyId, secretAccessKey, ...(sessionToken ? { sessionToken } : {}) };
  }

  const region = options.s3Region ?? granted["s3.region"] ?? granted["client.region"] ?? "us-east-1";

  /** Address of an object, or of the bucket with a query. */
  function urlOf(address: string, query = ""): string {
    const { protocol, bucket, key } = partsOf(address);
    if (isWeb(protocol)) return address;
    const isGoogle = protocol === "gs:";
    const endpoint = options.s3Endpoint ?? (isGoogle ? GCS : trusted(granted["s3.endpoint"] ?? null));
    const path = query === "" ? `/${key.split("/").map(encodeURIComponent).join("/")}` : "/";
    if (endpoint !== null) return `${endpoint.replace(/\/+$/u, "")}/${bucket}${path}${query}`;
    // A certificate of Amazon doesn't cover buckets with dots.
    const host = `s3.${region}.amazonaws.com`;
    return bucket.includes(".")
      ? `https://${host}/${bucket}${path}${query}`
      : `https://${bucket}.${host}${path}${query}`;
  }

  async function signed(method: string, url: string, protocol: string): Promise<Record<string, string>> {
    if (isWeb(protocol)) {
      const token = await options.webToken?.read();
      return token ? { authorization: `Bearer ${token}` } : {};
    }
    const token = protocol === "gs:" ? granted["gcs.oauth2.token"] : undefined;
    const keys = await keysOf();
    if (keys === null) return token ? { authorization: `Bearer ${token}` } : {};
    const { headers } = await new AwsV4Signer({ method, url, ...keys, service: "s3", region }).sign();
    return Object.fromEntries([...headers.entries()].filter(([name]) => name !== "host"));
  }

  /** Sends a request; repeats it after failures that pass. All requests can be repeated. */
  async function send(request: StorageRequest): Promise<Response> {
    for (let attempt = 1; ; attempt += 1) {
      const failure = await trySend(request).catch((error: unknown) => error);
      if (!(failure instanceof Error)) return failure as Response; // all errors of fetch are Errors
      const isPermanent =
        failure instanceof UntrustedAddressError || (failure instanceof StorageError && !failure.isPassing);
      if (isPermanent || attempt === MOST_TRIES) throw failure;
      await delay(FIRST_PAUSE_MS * 4 ** (attempt - 1));
    }
  }

  async function trySend({ method, address, query = "", body }: StorageRequest): Promise<Response> {
    const url = urlOf(address, query);
    const { protocol } = partsOf(address);
    const headers = await signed(method, url, protocol);
    const response = await agent
      .fetch(url, {
        method,
        headers,
        body: body ?? null,
        // The keys must not follow; undici leaves out the token at another host.
        redirect: isWeb(protocol) ? "follow" : "manual",
        signal: AbortSignal.timeout(TRANSFER_TIMEOUT_MS),
      })
      .catch((error: unknown) => {
        throw new UnreachableError(url, error);
      });
    if (isWeb(protocol)) trusted(response.url);
    if (response.ok) return response;
    const code = /<Code>(\w+)<\/Code>/u.exec(await response.text())?.[1] ?? "";
    const actual = response.headers.get("x-amz-bucket-region");
    const detail = actual !== null && actual !== region ? `${code}; the bucket is in ${actual}` : code;
    // Without the query, which the signature may be in.
    throw new StorageError(response.status, `${method} ${url.replace(/\?.*$/u, "")}`, detail);
  }

  return {
    read: async (address: string) =>
      Buffer.from(await (await send({ method: "GET", address })).arrayBuffer()),
    async download(address: string, file: string) {
      const { body } = await send({ method: "GET", address });
      if (body) await pipeline(Readable.fromWeb(body), createWriteStream(file, { mode: 0o600 }));
      else await writeFile(file, "", { mode: 0o600 });
    },
    async put(address: string, content: Blob) {
      await (await send({ method: "PUT", address, body: content })).arrayBuffer();
    },
    async list(folder: string) {
      const { protocol, bucket, key } = partsOf(folder);
      const found: StoredObject[] = [];
      for (let after = ""; ; ) {
        const query = new URLSearchParams({
          "list-type": "2",
          prefix: key === "" ? "" : `${key.replace(/\/+$/u, "")}/`,
          ...(after === "" ? {} : { "continuation-token": after }),
        });
        const request = { method: "GET", address: folder, query: `?${query.toString()}` };
        const text = await (await send(request)).text();
        for (const [, entry = ""] of text.matchAll(/<Contents>(.*?)<\/Contents>/gsu)) {
          const name = unescapeXml(/<Key>([^<]*)</u.exec(entry)?.[1] ?? "");
          const writtenMs = Date.parse(/<LastModified>([^<]*)</u.exec(entry)?.[1] ?? "");
          const version = /<ETag>([^<]*)</u.exec(entry)?.[1] ?? null;
          found.push({ address: `${protocol}//${bucket}/${name}`, writtenMs, version });
        }
        after = unescapeXml(/<NextContinuationToken>([^<]*)</u.exec(text)?.[1] ?? "");
        if (after === "") return found;
      }
    },
    async readVersion(address: string) {
      const { headers } = await send({ method: "HEAD", address });
      return headers.get("etag") ?? headers.get("last-modified");
    },
    async remove(address: string) {
      try {
        await (await send({ method: "DELETE", address })).arrayBuffer();
      } catch (error) {
        if (!isMissingFile(error)) throw error;
      }
    },
  };
}

const isWeb = (protocol: string) => protocol === "https:" || protocol === "http:";

function partsOf(address: string) {
  const [, scheme = "", bucket = "", key = ""] =
    /^(s3|s3a|s3n|gs|https?):\/\/([^/]+)\/?(.*)$/u.exec(address) ?? [];
  if (scheme === "") throw new Error(`${address} is neither in S3 or GCS nor a local file`);
  return { protocol: `${scheme}:`, bucket, key };
}

/** An address of the catalog or a redirection; refused if keys and rows would be sent over a network unencrypted. */
function trusted(endpoint: string | null): string | null {
  if (endpoint === null || isEncrypted(endpoint)) return endpoint;
  throw new UntrustedAddressError(
    `files are at ${new URL(endpoint).origin}, which isn't encrypted`,
    "Use an https:// address: in the catalog, in s3_endpoint, or of the file.",
  );
}

function isEncrypted(endpoint: string): boolean {
  const { protocol, hostname } = new URL(endpoint);
  return protocol === "https:" || ["localhost", "127.0.0.1", "[::1]"].includes(hostname);
}

const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

function unescapeXml(text: string): string {
  return text.replaceAll(
    /&(?:(amp|lt|gt|quot|apos)|#(\d+));/gu,
    (_, name: string | undefined, code: string) =>
      name ? (ENTITIES[name] ?? "") : String.fromCodePoint(Number(code)),
  );
}
