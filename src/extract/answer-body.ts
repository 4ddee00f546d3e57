import { promisify } from "node:util";
import { gunzip } from "node:zlib";

/** Largest body after decompression: a small body must not be able to fill the memory. */
export const MAX_PLAIN_BYTES = 256 * 1024 * 1024;

/** The body of a response, decompressed. */
export type PlainBody =
  | { readonly kind: "plain"; readonly bytes: Buffer }
  | { readonly kind: "unreadable"; readonly reason: string };

const gunzipAsync = promisify(gunzip);

/** Largest piece that is set aside at once on the word of a body's own trailer. */
const MAX_CHUNK_BYTES = 8 * 1024 * 1024;

/** The size that a gzip body states at its end, within bounds: one piece of that size halves the work. */
function plainSizeOf(body: Buffer): number {
  const stated = body.length >= 18 ? body.readUInt32LE(body.length - 4) : 0;
  return Math.min(Math.max(stated + 1, 16 * 1024), MAX_CHUNK_BYTES);
}

/** Decompresses a body within bounds, off the main thread. */
export async function decompress(
  body: Buffer,
  contentEncoding: string | null,
  maxBytes: number = MAX_PLAIN_BYTES,
): Promise<PlainBody> {
  const encoding = contentEncoding?.trim().toLowerCase() ?? "identity";
  if (encoding === "identity" || encoding === "") return { kind: "plain", bytes: body };
  if (encoding !== "gzip" && encoding !== "x-gzip") return { kind: "unreadable", reason: "unknown_encoding" };
  try {
    const chunkSize = plainSizeOf(body);
    return { kind: "plain", bytes: await gunzipAsync(body, { maxOutputLength: maxBytes, chunkSize }) };
  } catch (error) {
    const tooLarge = error instanceof RangeError;
    return { kind: "unreadable", reason: tooLarge ? "body_too_large" : "broken_compression" };
  }
}

/** Parses a body that may be anything, as those of errors are; undefined when it is no JSON. */
export function readJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    return undefined;
  }
}
