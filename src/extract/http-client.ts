import { crashPoint } from "../crash-point.ts";
import { buildConnector, Pool } from "undici";
import { codeOf, FixConfigurationError, messageOf } from "../errors.ts";

/** How to reach the service. */
export interface HttpClientOptions {
  /** Address of the service, with an optional path before every call's own. */
  readonly baseUrl: string;
  /** Reads the API key; asked once, and again when the service rejects the key (it may have been rotated). */
  readonly readKey: () => Promise<string>;
  /** Most connections, and with them most calls, at the same time. */
  readonly concurrency: number;
  /** Longest wait for a connection, TLS included. */
  readonly connectTimeoutMs?: number;
  /** Longest wait for the response's headers, and between two pieces of its body. Billed calls want at least 120 s. */
  readonly readTimeoutMs?: number;
  /** Longest time for a whole call. */
  readonly callTimeoutMs?: number;
  /** Largest body as received, that is: compressed. */
  readonly maxBodyBytes?: number;
  /** Largest sum of the bodies that are being received at the same time. */
  readonly maxReceivingBytes?: number;
}

/** One call. */
export interface HttpRequest {
  readonly method: "GET" | "POST";
  /** Path and query, without the base address. */
  readonly path: string;
  /** JSON text; null for none. */
  readonly body: string | null;
  readonly signal?: AbortSignal;
  /** Overrides the client's own, for calls that are free to repeat. */
  readonly readTimeoutMs?: number;
}

/** A whole response, its body still as received. */
export interface HttpResponse {
  readonly kind: "response";
  readonly status: number;
  readonly retryAfter: string | null;
  /** When it was sent, by its own header. */
  readonly date: string | null;
  readonly location: string | null;
  readonly contentEncoding: string | null;
  readonly body: Buffer;
  /** Which reading of the key was sent; see {@link HttpClient.renewKey}. */
  readonly keyVersion: number;
}

/** No whole response came. */
export interface HttpFailure {
  readonly kind: "failure";
  /** False only when no connection came about, so that the service can't have seen the request. */
  readonly sent: boolean;
  /** Of a response whose body was cut; null when no headers came. */
  readonly status: number | null;
  readonly code: string;
  readonly message: string;
}

/** What came back of a call. */
export type HttpReply = HttpResponse | HttpFailure;

/** The one place that talks to the service. */
export interface HttpClient {
  /** Address that calls go to, without path, for messages. */
  readonly origin: string;
  /**
   * Sends one request, once. Redirects are not followed; a failure is returned, not thrown. Throws only when the key
   * can't be read.
   */
  request(request: HttpRequest): Promise<HttpReply>;
  /** Reads the key again after the service rejected it; true when there is another one now. */
  renewKey(rejectedVersion: number): Promise<boolean>;
  close(): Promise<void>;
}

/** A connection could not be made: the request was not sent. */
class ConnectError extends Error {
  override readonly name = "ConnectError";
}

/** A call took too long as a whole, however steadily its body came in. */
class CallTimeoutError extends Error {
  override readonly name = "CallTimeoutError";
  readonly code = "CALL_TIMEOUT";
}

/** The bodies of all calls in flight are too large together. */
class TooManyBytesError extends Error {
  override readonly name = "TooManyBytesError";
  readonly code = "TOO_MANY_BYTES";
}

/** Aborts with `signal` or after `timeoutMs`; to be closed when the call has ended. */
function callSignal(signal: AbortSignal | undefined, timeoutMs: number) {
  const controller = new AbortController();
  const onAbort = () => {
    controller.abort(signal?.reason);
  };
  const timer = setTimeout(() => {
    controller.abort(new CallTimeoutError(`The call took longer than ${timeoutMs} ms.`));
  }, timeoutMs);
  if (signal?.aborted) onAbort();
  signal?.addEventListener("abort", onAbort, { once: true });
  return {
    signal: controller.signal,
    close: () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
    },
  };
}

const KEY_CHARACTERS = /^[\x21-\x7e]+$/u;

/** Marks errors of connecting, which undici reports through the same channel as errors after sending. */
function markingConnector(timeoutMs: number): buildConnector.connector {
  // rejectUnauthorized is stated, so that no environment variable can switch verification off.
  const connect = buildConnector({ timeout: timeoutMs, rejectUnauthorized: true, allowH2: false });
  return (options, callback) => {
    connect(options, (error, socket) => {
      if (error) callback(new ConnectError(error.message, { cause: error }), null);
      else callback(null, socket);
    });
  };
}

/** One header as text, the first of several; null when absent. */
function header(headers: Record<string, string | string[] | undefined>, name: string): string | null {
  const value = headers[name];
  return (Array.isArray(value) ? value[0] : value) ?? null;
}

function failureOf(error: unknown, status: number | null): HttpFailure {
  const cause = error instanceof ConnectError ? error.cause : error;
  const code = codeOf(cause) ?? (cause instanceof Error ? cause.name : "UNKNOWN");
  return { kind: "failure", sent: !(error instanceof ConnectError), status, code, message: messageOf(cause) };
}

/** Reads the key, once for all who ask at the same time. */
function keyHolder(readKey: () => Promise<string>) {
  let current: { readonly key: string; readonly version: number } | null = null;
  let reading: Promise<{ readonly key: string; readonly version: number }> | null = null;

  async function readOnce() {
    const key = await readKey();
    if (!KEY_CHARACTERS.test(key)) {
      throw new FixConfigurationError(
        "api_key_unusable",
        "The API key is empty or holds characters that an HTTP header can't carry; check where service.api_key points.",
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

/** Opens the connection pool; nothing is sent before the first request. */
export function openHttpClient(options: HttpClientOptions): HttpClient {
  const base = new URL(options.baseUrl);
  const pathPrefix = base.pathname.replace(/\/+$/u, "");
  const readTimeoutMs = options.readTimeoutMs ?? 120_000;
  const callTimeoutMs = options.callTimeoutMs ?? 600_000;
  const maxReceivingBytes = options.maxReceivingBytes ?? 64 * 1024 * 1024;
  let receivingBytes = 0;
  const keys = keyHolder(options.readKey);
  const pool = new Pool(base.origin, {
    connections: options.concurrency,
    pipelining: 1,
    allowH2: false,
    connect: markingConnector(options.connectTimeoutMs ?? 10_000),
    maxResponseSize: options.maxBodyBytes ?? 64 * 1024 * 1024,
  });

  /** Reads a body to its end: an unread one would keep its connection from being used again. */
  async function readBody(body: AsyncIterable<Buffer>): Promise<Buffer> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    try {
      for await (const chunk of body) {
        chunks.push(chunk);
        bytes += chunk.length;
        receivingBytes += chunk.length;
        if (receivingBytes > maxReceivingBytes) {
          throw new TooManyBytesError(`The answers in flight have more than ${maxReceivingBytes} bytes.`);
        }
      }
      return Buffer.concat(chunks, bytes);
    } finally {
      receivingBytes -= bytes;
    }
  }

  async function request(call: HttpRequest): Promise<HttpReply> {
    const { key, version } = await keys.get();
    const ending = callSignal(call.signal, callTimeoutMs);
    let status: number | null = null;
    try {
      const response = await pool.request({
        method: call.method,
        path: pathPrefix + call.path,
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
        signal: ending.signal,
      });
      status = response.statusCode;
      crashPoint("after_send");
      const body = await readBody(response.body);
      return {
        kind: "response",
        status,
        retryAfter: header(response.headers, "retry-after"),
        date: header(response.headers, "date"),
        location: header(response.headers, "location"),
        contentEncoding: header(response.headers, "content-encoding"),
        body,
        keyVersion: version,
      };
    } catch (error) {
      return failureOf(error, status);
    } finally {
      ending.close();
    }
  }

  return {
    origin: base.origin,
    request,
    renewKey: async (rejectedVersion) => await keys.renew(rejectedVersion),
    close: async () => {
      await pool.close();
    },
  };
}
