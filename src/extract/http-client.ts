import { open, rm } from "node:fs/promises";
import { crashPoint } from "../crash-point.ts";
import { codeOf, FixConfigurationError } from "../errors.ts";
import { ConnectError, openAgent } from "../http-agent.ts";
import { appendBytes, type Body, type FilePart, freeBytes } from "../body.ts";
import { MAX_LARGE_BYTES } from "./answer-body.ts";
import {
  beginReceiving,
  createMemory,
  endReceiving,
  type Lease,
  type Memory,
  openLease,
  receiveBytes,
  releaseLease,
} from "./memory.ts";
import { AnotherServiceError, readMark, SANDBOX_HEADER } from "./sandbox-mark.ts";

export interface HttpClientOptions {
  /** Address of the service, with an optional path prefix. */
  readonly baseUrl: string;
  /** Other paths by the declared ones, for endpoints that the service replaced. */
  readonly endpoints?: Readonly<Record<string, string>>;
  /** Reads the API key; called once, and again if the service rejects the key (it may have been rotated). */
  readonly readKey: () => Promise<string>;
  /** Reads the key for calls `asUser`; {@link readKey} by default. */
  readonly readUserKey?: () => Promise<string>;
  /** Maximum connections, and so concurrent calls. */
  readonly concurrency: number;
  /** PEM file of the only trusted authorities; null for the usual ones. */
  readonly caFile?: string | null;
  /** Maximum time to the response headers, and between two chunks of the body. Billed calls need at least 120 s. */
  readonly readTimeoutMs?: number;
  readonly callTimeoutMs?: number;
  /** Maximum size of a body in memory, as received (compressed). */
  readonly maxBodyBytes?: number;
  /** Once aborted, calls that get no answer in time are abandoned. */
  readonly stop?: AbortSignal;
  /** Longest wait for an answer after `stop`. */
  readonly abandonAfterMs?: number;
}

export interface HttpRequest {
  readonly method: "GET" | "POST";
  /** Path and query, without the base address. */
  readonly path: string;
  /** JSON text; null for none. */
  readonly body: string | null;
  readonly signal?: AbortSignal;
  readonly asUser?: boolean;
  /** Overrides the client's timeout, for calls that are free to repeat. */
  readonly readTimeoutMs?: number;
  /** Memory taken for the response; released by its `release`, or if no complete response arrives. */
  readonly lease?: Lease;
  /** Path of a new file for a body beyond `maxBodyBytes`; without it, such a body is a failure. */
  readonly overflowPath?: string;
}

/** Complete response, with its body as received. */
export interface HttpResponse {
  readonly kind: "response";
  readonly status: number;
  readonly retryAfter: string | null;
  readonly date: string | null;
  readonly location: string | null;
  readonly contentEncoding: string | null;
  /** Seed of the sandbox that sent it, or UNKNOWN_SEED; absent in responses of other services. */
  readonly sandboxSeed?: string;
  /** In the file at `overflowPath` if it is larger than `maxBodyBytes`. */
  readonly body: Body;
  /** Releases the memory of the body; call it once the body is no longer used. */
  readonly release: () => void;
  /** Which reading of the key was sent; see {@link HttpClient.renewKey}. */
  readonly keyVersion: number;
}

interface HttpFailure {
  readonly kind: "failure";
  /** False only if no connection was made, so that the service can't have received the request. */
  readonly sent: boolean;
  /** Status of a response with an incomplete body; null if no headers were received. */
  readonly status: number | null;
  /** Bytes of the body before it broke off. */
  readonly receivedBytes: number;
  readonly code: string;
}

export type HttpReply = HttpResponse | HttpFailure;

/** HTTP client for the service; all requests go through it. */
export interface HttpClient {
  /** Address of the service without path, for messages. */
  readonly origin: string;
  readonly memory: Memory;
  /**
   * Sends one request, once. Doesn't follow redirects. Returns failures instead of throwing; throws only if the key can't be
   * read, on results of an unexpected sandbox, or an OverflowError.
   */
  request(request: HttpRequest): Promise<HttpReply>;
  /** Reads the key again after the service rejected it; true if it changed. */
  renewKey(rejectedVersion: number, asUser?: boolean): Promise<boolean>;
  /** From now on refuses results of a sandbox with another seed, of one at all if null, of none if undefined: an AnotherServiceError. */
  expectSandbox(seed: string | null | undefined): void;
  close(): Promise<void>;
}

/** Code of a failure: the body is larger than any answer may be. */
export const BODY_TOO_LARGE = "BODY_TOO_LARGE";
/** Code of a failure: the answer was not waited for after a signal. */
export const ABANDONED = "ABANDONED";

/** A large body was received, and can't be written to its file. */
export class OverflowError extends Error {
  override readonly name = "OverflowError";
}

/** A call ended by us, not by the service or the network. */
class EndedCallError extends Error {
  override readonly name = "EndedCallError";
  readonly code: string;

  constructor(code: "CALL_TIMEOUT" | typeof ABANDONED | typeof BODY_TOO_LARGE) {
    super(code);
    this.code = code;
  }
}

/** Ends a call after `callTimeoutMs`, some time after the program is asked to stop, or with the caller's signal. */
function endingOf(
  { stop, callTimeoutMs = 600_000, abandonAfterMs = 20_000 }: HttpClientOptions,
  signals: readonly AbortSignal[],
) {
  const controller = new AbortController();
  const endAfter = (ms: number, code: "CALL_TIMEOUT" | typeof ABANDONED) =>
    setTimeout(() => controller.abort(new EndedCallError(code)), ms);
  const timers = [endAfter(callTimeoutMs, "CALL_TIMEOUT")];
  const onStop = () => {
    timers.push(endAfter(abandonAfterMs, ABANDONED));
  };
  if (stop?.aborted) onStop();
  stop?.addEventListener("abort", onStop, { once: true });
  return {
    signal: AbortSignal.any([controller.signal, ...signals]),
    close() {
      for (const timer of timers) clearTimeout(timer);
      stop?.removeEventListener("abort", onStop);
    },
  };
}

/** Largest body in memory: answers aim at 4 MB before compression. */
const MAX_BODY_BYTES = 32 * 1024 * 1024;
/** Memory of all responses, from the request until their rows are committed. */
const MAX_MEMORY_BYTES = 40 * 1024 * 1024;
/** Maximum time to connect, including TLS. */
const CONNECT_TIMEOUT_MS = 10_000;

/** Longest wait for the next bytes of a response. */
export const READ_TIMEOUT_MS = 120_000;
const KEY_CHARACTERS = /^[\x21-\x7e]+$/u;

function header(headers: Record<string, string | string[] | undefined>, name: string): string | null {
  const value = headers[name];
  return (Array.isArray(value) ? value[0] : value) ?? null;
}

/** Explains a failure of the disk. */
async function written<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (cause) {
    throw new OverflowError("A large response can't be written to disk.", { cause });
  }
}

/** Writes a body to a new file: what was received before, a chunk, and the chunks to come. */
async function writeOverflow(
  path: string,
  {
    before,
    chunk,
    chunks,
  }: { readonly before: Buffer; readonly chunk: Buffer; readonly chunks: AsyncIterator<Buffer> },
  lease: Lease,
): Promise<FilePart> {
  let length = 0;
  const file = await written(open(path, "wx", 0o600));
  try {
    const write = async (bytes: Buffer) => {
      length += bytes.length;
      if (length > MAX_LARGE_BYTES) throw new EndedCallError(BODY_TOO_LARGE);
      await written(file.appendFile(bytes));
      lease.receivedBytes = length;
    };
    await write(before);
    freeBytes(before);
    releaseLease(lease);
    await write(chunk);
    for (let more = await chunks.next(); !more.done; more = await chunks.next()) await write(more.value);
    return { path, start: 0, length };
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  } finally {
    await file.close();
  }
}

function failureOf(error: unknown, status: number | null, receivedBytes: number): HttpFailure {
  const code = codeOf(error) ?? (error instanceof Error ? error.name : "UNKNOWN");
  const sent = !(error instanceof ConnectError);
  return { kind: "failure", sent, status, receivedBytes, code };
}

/** Reads the key, once for concurrent callers. */
function keyHolder(readKey: () => Promise<string>) {
  let current: { readonly key: string; readonly version: number } | null = null;
  let reading: Promise<{ readonly key: string; readonly version: number }> | null = null;

  async function readOnce() {
    const key = await readKey();
    if (!KEY_CHARACTERS.test(key)) {
      throw new FixConfigurationError(
        "api_key_unusable",
        "The API key is empty or contains characters that are not allowed in an HTTP header. Check service.api_key and service.user_api_key.",
      );
    }
    if (current?.key !== key) current = { key, version: (current?.version ?? 0) + 1 };
    return current;
  }

  async function read() {
    reading ??= readOnce().finally(() => {
      reading = null;
    });
    return await reading;
  }

  return {
    get: async () => current ?? (await read()),
    async renew(rejectedVersion: number): Promise<boolean> {
      if (current && current.version > rejectedVersion) return true;
      return (await read()).version > rejectedVersion;
    },
  };
}

/** Opens the connection pool; connects on the first request. */
export function openHttpClient(options: HttpClientOptions): HttpClient {
  const base = new URL(options.baseUrl);
  const pathPrefix = base.pathname.replace(/\/+$/u, "");
  const readTimeoutMs = options.readTimeoutMs ?? READ_TIMEOUT_MS;
  const maxBodyBytes = options.maxBodyBytes ?? MAX_BODY_BYTES;
  const memory = createMemory(MAX_MEMORY_BYTES);
  const organizationKey = keyHolder(options.readKey);
  const userKey = options.readUserKey ? keyHolder(options.readUserKey) : organizationKey;
  const keysOf = (asUser = false) => (asUser ? userKey : organizationKey);
  /** Undefined before the service is identified. */
  let expectedSeed: string | null | undefined;
  const { concurrency, caFile = null } = options;
  const agent = openAgent({ connections: concurrency, connectTimeoutMs: CONNECT_TIMEOUT_MS, caFile });

  /**
   * Reads a body to its end: an unread one would keep its connection from being used again. Copies each chunk at once:
   * kept chunks would grow old, and be collected long after the body is gone.
   */
  async function readBody(
    body: AsyncIterable<Buffer>,
    statedBytes: number,
    { lease, signal, overflowPath }: { lease: Lease; signal: AbortSignal; overflowPath: string | null },
  ): Promise<Body> {
    const mostBytes = statedBytes > maxBodyBytes ? 0 : maxBodyBytes;
    let received: Buffer = Buffer.allocUnsafeSlow(Math.min(statedBytes, mostBytes));
    let bytes = 0;
    const chunks = body[Symbol.asyncIterator]();
    try {
      for (let next = await chunks.next(); !next.done; next = await chunks.next()) {
        const chunk = next.value;
        const end = bytes + chunk.length;
        if (end > mostBytes) {
          if (overflowPath === null) throw new EndedCallError(BODY_TOO_LARGE);
          const before = received.subarray(0, bytes);
          return await writeOverflow(overflowPath, { before, chunk, chunks }, lease);
        }
        received = appendBytes(received, bytes, chunk);
        bytes = end;
        await receiveBytes(lease, chunk.length, signal);
      }
      return received.subarray(0, bytes);
    } finally {
      await chunks.return?.();
    }
  }

  async function request(call: HttpRequest): Promise<HttpReply> {
    const overflowPath = call.overflowPath ?? null;
    const mostBytes = overflowPath === null ? maxBodyBytes : MAX_LARGE_BYTES;
    const { key, version } = await keysOf(call.asUser).get();
    const ending = endingOf(options, call.signal ? [call.signal] : []);
    const { signal } = ending;
    let status: number | null = null;
    const lease = call.lease ?? openLease(memory);
    try {
      const response = await agent.request({
        origin: base.origin,
        method: call.method,
        path: pathPrefix + (options.endpoints?.[call.path] ?? call.path),
        headers: {
          "x-api-key": key,
          accept: "application/json",
          "accept-encoding": "gzip",
          "user-agent": "person-etl",
          ...(call.body === null ? {} : { "content-type": "application/json" }),
        },
        body: call.body,
        headersTimeout: call.readTimeoutMs ?? readTimeoutMs,
        bodyTimeout: call.readTimeoutMs ?? readTimeoutMs,
        signal,
      });
      status = response.statusCode;
      crashPoint("after_send");
      const sandboxSeed = readMark(response.headers[SANDBOX_HEADER]);
      const isResult = status >= 200 && status < 300;
      if (isResult && expectedSeed !== undefined && sandboxSeed !== expectedSeed) {
        await response.body.dump();
        throw new AnotherServiceError(base.origin, sandboxSeed, status);
      }
      const statedBytes = Number(response.headers["content-length"] ?? 0);
      if (statedBytes > mostBytes) {
        response.body.destroy();
        throw new EndedCallError(BODY_TOO_LARGE);
      }
      beginReceiving(lease);
      const body = await readBody(response.body, statedBytes, { lease, signal, overflowPath });
      endReceiving(lease);
      return {
        kind: "response",
        status,
        retryAfter: header(response.headers, "retry-after"),
        date: header(response.headers, "date"),
        location: header(response.headers, "location"),
        contentEncoding: header(response.headers, "content-encoding"),
        ...(sandboxSeed === null ? {} : { sandboxSeed }),
        body,
        release: () => {
          releaseLease(lease);
        },
        keyVersion: version,
      };
    } catch (error) {
      releaseLease(lease);
      if (error instanceof OverflowError || error instanceof FixConfigurationError) throw error;
      return failureOf(error, status, lease.receivedBytes);
    } finally {
      ending.close();
    }
  }

  return {
    origin: base.origin,
    memory,
    request,
    renewKey: async (rejectedVersion, asUser) => await keysOf(asUser).renew(rejectedVersion),
    expectSandbox(seed) {
      expectedSeed = seed;
    },
    close: () => agent.close(),
  };
}
