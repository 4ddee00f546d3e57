import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
import { type Refusal, refuse } from "./answer.ts";

const compress = promisify(gzip);
const decompress = promisify(gunzip);

/** Maximum size of a request's body, compressed and decompressed. */
const MAX_BODY_BYTES = 32 * 1024 * 1024;
/** Bodies below are not worth compressing. */
const MIN_GZIP_BYTES = 1024;
/** Output pieces of this size save trips to zlib's threads. */
const GZIP_CHUNK_BYTES = 512 * 1024;

/** Reads a body to its end; null if it is too large. */
export async function readBody(request: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    if (!Buffer.isBuffer(chunk)) continue;
    bytes += chunk.length;
    if (bytes <= MAX_BODY_BYTES) chunks.push(chunk);
  }
  return bytes > MAX_BODY_BYTES ? null : Buffer.concat(chunks);
}

/** Parses a body as JSON, decompressed if necessary. */
export async function parseBody(
  { headers }: IncomingMessage,
  bytes: Buffer | null,
): Promise<{ readonly value: unknown } | Refusal> {
  if (bytes === null) return refuse(413, "payload_too_large", "The request body is too large.");
  if (!/^application\/json\b/i.test(headers["content-type"] ?? "")) {
    return refuse(400, "bad_request", "The Content-Type header has to be application/json.");
  }
  const encoding = (headers["content-encoding"] ?? "identity").toLowerCase();
  if (encoding !== "identity" && encoding !== "gzip") {
    return refuse(400, "bad_request", "The Content-Encoding header has to be gzip or absent.");
  }
  try {
    const plain = encoding === "gzip" ? await decompress(bytes, { maxOutputLength: MAX_BODY_BYTES }) : bytes;
    return { value: JSON.parse(plain.toString("utf8")) };
  } catch {
    return refuse(400, "bad_request", "The request body is not valid JSON.");
  }
}

/** Damage and delay of an answer in transit. */
export interface Wire {
  /** `cut_body` ends in the middle; `truncated` is complete HTTP with half the JSON; `lost` never arrives. */
  readonly damage: "none" | "cut_body" | "truncated" | "lost";
  /** Waits between the headers and the body. */
  readonly bodyDelayMs: number;
}

/** Delivers the answer unchanged. */
export const SOUND_WIRE: Wire = { damage: "none", bodyDelayMs: 0 };

/** Sends an answer, compressed if it may be and the client accepts it, and applies the damage of `wire`. */
export async function send(
  request: IncomingMessage,
  response: ServerResponse,
  answer: {
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: Buffer;
    readonly compresses: boolean;
  },
  wire: Wire,
): Promise<void> {
  if (wire.damage === "lost") {
    response.socket?.resetAndDestroy();
    return;
  }
  let body = wire.damage === "truncated" ? answer.body.subarray(0, answer.body.length >> 1) : answer.body;
  const headers: Record<string, string> = { ...answer.headers };
  const takesGzip = answer.compresses && /\bgzip\b/i.test(request.headers["accept-encoding"] ?? "");
  if (takesGzip && body.length >= MIN_GZIP_BYTES) {
    body = await compress(body, { level: 1, chunkSize: GZIP_CHUNK_BYTES });
    headers["content-encoding"] = "gzip";
  }
  headers["content-length"] = String(body.length);
  response.writeHead(answer.status, headers);
  if (wire.bodyDelayMs > 0) {
    response.flushHeaders();
    await delay(wire.bodyDelayMs, undefined, { ref: false });
  }
  if (wire.damage === "cut_body") {
    response.write(body.subarray(0, body.length >> 1), () => response.destroy());
    return;
  }
  response.end(body);
}
