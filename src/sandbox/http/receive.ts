import type { IncomingMessage } from "node:http";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { type Refusal, refuse } from "./outcome.ts";

const decompress = promisify(gunzip);

/** Maximum size of a body, compressed and decompressed. */
const MAX_BODY_BYTES = 32 * 1024 * 1024;

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
  request: IncomingMessage,
  bytes: Buffer | null,
): Promise<{ readonly value: unknown } | Refusal> {
  if (bytes === null) return refuse(413, "payload_too_large", "The request body is too large.");
  const type = request.headers["content-type"] ?? "";
  if (!/^application\/json\b/i.test(type)) {
    return refuse(400, "bad_request", "The Content-Type header has to be application/json.");
  }
  const encoding = (request.headers["content-encoding"] ?? "identity").toLowerCase();
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
