import { AwsV4Signer } from "aws4fetch";
import { createWriteStream, openAsBlob } from "node:fs";
import { copyFile, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { type BodyInit, type Dispatcher, fetch, type Response } from "undici";
import { openAgent } from "../../http-agent.ts";
import { codeOf } from "../../errors.ts";
import type { SecretValue } from "./catalog.ts";

/** Files of tables, by their full addresses: `s3://bucket/path`, `gs://bucket/path`, `file:///path`. */
export interface Storage {
  read(address: string): Promise<Buffer>;
  write(address: string, content: Buffer): Promise<void>;
  /** Copies an object to a local file. */
  download(address: string, file: string): Promise<void>;
  /** Copies a local file to an object. */
  upload(file: string, address: string): Promise<void>;
  /** Lists all objects in a folder and below. */
  list(folder: string): Promise<readonly StoredObject[]>;
  /** Removes an object; does nothing if it is missing. */
  remove(address: string): Promise<void>;
}

export interface StoredObject {
  readonly address: string;
  /** Time at which it was written. */
  readonly writtenMs: number;
}

export interface StorageOptions {
  /** Address of an S3 service other than Amazon's. */
  readonly s3Endpoint: string | null;
  readonly s3Region: string | null;
  /** Keys of S3, or HMAC keys of GCS; null to use what the catalog grants. */
  readonly accessKeyId: SecretValue | null;
  readonly secretAccessKey: SecretValue | null;
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
  constructor(status: number, tried: string, code: string) {
    super(`${tried} was answered with ${status} ${code}`);
    this.status = status;
  }
}

export const isMissingFile = (error: unknown) =>
  (error instanceof StorageError && error.status === 404) || codeOf(error) === "ENOENT";

/** Opens the store of a table. `granted` is the table's configuration from the catalog. */
export function openStorage(
  options: StorageOptions,
  granted: Readonly<Record<string, string>>,
  agent: Dispatcher,
): Storage {
  const objects = objectStore(options, granted, agent);
  return {
    read: (address) => (isLocal(address) ? readFile(fileURLToPath(address)) : objects.read(address)),
    async write(address, content) {
      if (!isLocal(address)) return objects.put(address, new Blob([new Uint8Array(content)]));
      await mkdir(dirname(fileURLToPath(address)), { recursive: true, mode: 0o700 });
      await writeFile(fileURLToPath(address), content, { mode: 0o600 });
    },
    async download(address, file) {
      if (isLocal(address)) await copyFile(fileURLToPath(address), file);
      else await objects.download(address, file);
    },
    async upload(file, address) {
      if (!isLocal(address)) return objects.put(address, await openAsBlob(file));
      await mkdir(dirname(fileURLToPath(address)), { recursive: true, mode: 0o700 });
      await copyFile(file, fileURLToPath(address));
    },
    list: (folder) => (isLocal(folder) ? listFolder(fileURLToPath(folder)) : objects.list(folder)),
    async remove(address) {
      if (isLocal(address)) await rm(fileURLToPath(address), { force: true });
      else await objects.remove(address);
    },
  };
}

const isLocal = (address: string) => address.startsWith("file:");

/** Opens the connections that stores share. */
export function openStorageAgent(): Dispatcher {
  return openAgent({ connections: 8, connectTimeoutMs: CONNECT_TIMEOUT_MS });
}

async function listFolder(folder: string): Promise<readonly StoredObject[]> {
  try {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    const paths = entries
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
    return await Promise.all(
      paths.map(async (path) => ({
        address: pathToFileURL(path).href,
        writtenMs: (await stat(path)).mtimeMs,
      })),
    );
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}

/** The XML interface of S3, which GCS has, too. */
function objectStore(options: StorageOptions, granted: Readonly<Record<string, string>>, agent: Dispatcher) {
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
    const endpoint = options.s3Endpoint ?? granted["s3.endpoint"] ?? null;
    const path = query === "" ? `/${key.split("/").map(encodeURIComponent).join("/")}` : "/";
    if (endpoint !== null) return `${endpoint.replace(/\/+$/u, "")}/${bucket}${path}${query}`;
    if (protocol === "gs:") return `${GCS}/${bucket}${path}${query}`;
    // A certificate of Amazon doesn't cover buckets with dots.
    const host = `s3.${region}.amazonaws.com`;
    return bucket.includes(".")
      ? `https://${host}/${bucket}${path}${query}`
      : `https://${bucket}.${host}${path}${query}`;
  }

  async function signed(method: string, url: string): Promise<Record<string, string>> {
    const token = granted["gcs.oauth2.token"];
    const keys = await keysOf();
    if (keys === null) return token ? { authorization: `Bearer ${token}` } : {};
    const { headers } = await new AwsV4Signer({ method, url, ...keys, service: "s3", region }).sign();
    return Object.fromEntries([...headers.entries()].filter(([name]) => name !== "host"));
  }

  /** Sends a request; repeats it after failures that pass. All requests can be repeated. */
  async function send(method: string, url: string, body: BodyInit | null = null): Promise<Response> {
    for (let attempt = 1; ; attempt += 1) {
      const failure = await trySend(method, url, body).catch((error: unknown) => error);
      if (!(failure instanceof Error)) return failure as Response; // all errors of fetch are Errors
      const isPermanent = failure instanceof StorageError && failure.status < 500 && failure.status !== 429;
      if (isPermanent || attempt === MOST_TRIES) throw failure;
      await new Promise((resolve) => setTimeout(resolve, FIRST_PAUSE_MS * 4 ** (attempt - 1)));
    }
  }

  async function trySend(method: string, url: string, body: BodyInit | null): Promise<Response> {
    const headers = await signed(method, url);
    const response = await fetch(url, {
      method,
      headers,
      body,
      dispatcher: agent,
      redirect: "error",
      signal: AbortSignal.timeout(TRANSFER_TIMEOUT_MS),
    });
    if (response.ok) return response;
    const code = /<Code>(\w+)<\/Code>/u.exec(await response.text())?.[1] ?? "";
    // Without the query, which the signature may be in.
    throw new StorageError(response.status, `${method} ${url.replace(/\?.*$/u, "")}`, code);
  }

  return {
    read: async (address: string) => Buffer.from(await (await send("GET", urlOf(address))).arrayBuffer()),
    async download(address: string, file: string) {
      const { body } = await send("GET", urlOf(address));
      if (body) await pipeline(Readable.fromWeb(body), createWriteStream(file, { mode: 0o600 }));
      else await writeFile(file, "", { mode: 0o600 });
    },
    async put(address: string, content: Blob) {
      await (await send("PUT", urlOf(address), content)).arrayBuffer();
    },
    async list(folder: string) {
      const { protocol, bucket, key } = partsOf(folder);
      const found: StoredObject[] = [];
      for (let after = ""; ; ) {
        const query = new URLSearchParams({
          "list-type": "2",
          prefix: `${key.replace(/\/+$/u, "")}/`,
          ...(after === "" ? {} : { "continuation-token": after }),
        });
        const text = await (await send("GET", urlOf(folder, `?${query.toString()}`))).text();
        for (const [, entry = ""] of text.matchAll(/<Contents>(.*?)<\/Contents>/gsu)) {
          const name = unescapeXml(/<Key>([^<]*)</u.exec(entry)?.[1] ?? "");
          const writtenMs = Date.parse(/<LastModified>([^<]*)</u.exec(entry)?.[1] ?? "");
          found.push({ address: `${protocol}//${bucket}/${name}`, writtenMs });
        }
        after = unescapeXml(/<NextContinuationToken>([^<]*)</u.exec(text)?.[1] ?? "");
        if (after === "") return found;
      }
    },
    async remove(address: string) {
      try {
        await (await send("DELETE", urlOf(address))).arrayBuffer();
      } catch (error) {
        if (!isMissingFile(error)) throw error;
      }
    },
  };
}

function partsOf(address: string) {
  const [, scheme = "", bucket = "", key = ""] = /^(s3|s3a|gs):\/\/([^/]+)\/?(.*)$/u.exec(address) ?? [];
  if (scheme === "") throw new Error(`${address} is neither in S3 or GCS nor a local file`);
  return { protocol: `${scheme}:`, bucket, key };
}

const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

function unescapeXml(text: string): string {
  return text.replaceAll(
    /&(?:(amp|lt|gt|quot|apos)|#(\d+));/gu,
    (_, name: string | undefined, code: string) =>
      name ? (ENTITIES[name] ?? "") : String.fromCodePoint(Number(code)),
  );
}
