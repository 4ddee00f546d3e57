import { promisify } from "node:util";
import { gunzip } from "node:zlib";

/** Maximum size of a decompressed body of a free call. */
const MAX_PLAIN_BYTES = 256 * 1024 * 1024;

/** Decompressed body of a response. */
export type PlainBody =
  | { readonly kind: "plain"; readonly bytes: Buffer }
  | { readonly kind: "unreadable"; readonly reason: string };

const tooLarge = { kind: "unreadable", reason: "body_too_large" } as const;

const gunzipAsync = promisify(gunzip);

/** Maximum output chunk, because the size in a gzip trailer may be wrong. */
const MAX_CHUNK_BYTES = 8 * 1024 * 1024;

function isGzip(contentEncoding: string | null): boolean {
  return ["gzip", "x-gzip"].includes(encodingOf(contentEncoding));
}

function encodingOf(contentEncoding: string | null): string {
  return contentEncoding?.trim().toLowerCase() ?? "identity";
}

/** Returns the decompressed size of a body according to its gzip trailer. */
export function statedSize(body: Buffer, contentEncoding: string | null): number {
  if (!isGzip(contentEncoding)) return body.length;
  return body.length >= 18 ? body.readUInt32LE(body.length - 4) : 0;
}

/** Decompresses a body up to a maximum size, off the main thread. */
export async function decompress(
  body: Buffer,
  contentEncoding: string | null,
  maxBytes: number = MAX_PLAIN_BYTES,
): Promise<PlainBody> {
  const encoding = encodingOf(contentEncoding);
  if (encoding === "identity" || encoding === "") {
    return body.length > maxBytes ? tooLarge : { kind: "plain", bytes: body };
  }
  if (!isGzip(encoding)) return { kind: "unreadable", reason: "unknown_encoding" };
  try {
    // One chunk of the final size halves the work.
    const chunkSize = Math.min(Math.max(statedSize(body, encoding) + 1, 16 * 1024), MAX_CHUNK_BYTES);
    return { kind: "plain", bytes: await gunzipAsync(body, { maxOutputLength: maxBytes, chunkSize }) };
  } catch (error) {
    return error instanceof RangeError ? tooLarge : { kind: "unreadable", reason: "broken_compression" };
  }
}

/** Parses a body that may not be JSON, as in error responses; then undefined. */
export function readJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    return undefined;
  }
}
