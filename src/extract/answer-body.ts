import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { createGunzip, gunzip } from "node:zlib";
import { codeOf } from "../errors.ts";
import { type Body, chunksOf, isFilePart } from "../body.ts";

/** Largest answer, as received and after decompression. A larger one is lost, and may be sent for again. */
export const MAX_LARGE_BYTES = 1024 * 1024 * 1024;
/** Largest answer, after decompression, that is in memory as a whole; a larger one is read result by result, twice. */
export const MAX_ANSWER_BYTES = 32 * 1024 * 1024;
/** Largest body of an error after decompression: a larger one is no error of the service. */
export const MAX_ERROR_BYTES = 512 * 1024;

type PlainBody =
  | { readonly kind: "plain"; readonly bytes: Buffer }
  | { readonly kind: "unreadable"; readonly reason: string };

const tooLarge = { kind: "unreadable", reason: "body_too_large" } as const;

const gunzipAsync = promisify(gunzip);

/** Maximum output chunk, because the size in a gzip trailer may be wrong. */
const MAX_CHUNK_BYTES = 8 * 1024 * 1024;
/** Unpacked bytes that are read at once. */
const UNPACKED_BYTES = 256 * 1024;

function isGzip(contentEncoding: string | null): boolean {
  return ["gzip", "x-gzip"].includes(encodingOf(contentEncoding));
}

function encodingOf(contentEncoding: string | null): string {
  return contentEncoding?.trim().toLowerCase() ?? "identity";
}

/** Returns the bytes that decompressing a body adds, according to its gzip trailer. */
export function statedSize(body: Buffer, contentEncoding: string | null): number {
  if (!isGzip(contentEncoding)) return 0;
  return body.length >= 18 ? body.readUInt32LE(body.length - 4) : 0;
}

/** Smallest compressed body that could be too large: 1 to 1032 is the most that gzip compresses. */
const LEAST_BOMB_BYTES = 16 * 1024;

/** Unpacks without keeping anything: a bomb would otherwise leave its whole bound as garbage each time. */
async function unpacksBeyond(body: Buffer, maxBytes: number): Promise<boolean> {
  if (body.length < LEAST_BOMB_BYTES) return false;
  const unpacking = createGunzip();
  unpacking.end(body);
  let bytes = 0;
  try {
    for await (const piece of unpacking as AsyncIterable<Buffer>) {
      bytes += piece.length;
      if (bytes > maxBytes) return true;
    }
    return false;
  } catch {
    // Broken, which shows again when it is unpacked to be read.
    return false;
  }
}

/** Decompresses a body within bounds, off the main thread. */
export async function decompress(
  body: Body,
  contentEncoding: string | null,
  maxBytes: number = MAX_ANSWER_BYTES,
): Promise<PlainBody> {
  if (isFilePart(body)) return tooLarge;
  const encoding = encodingOf(contentEncoding);
  if (encoding === "identity" || encoding === "") {
    return body.length > maxBytes ? tooLarge : { kind: "plain", bytes: body };
  }
  if (!isGzip(encoding)) return { kind: "unreadable", reason: "unknown_encoding" };
  // With several members, only the last one's size is stated.
  const isSuspect = maxBytes >= MAX_ANSWER_BYTES || statedSize(body, encoding) > maxBytes;
  if (isSuspect && (await unpacksBeyond(body, maxBytes))) return tooLarge;
  try {
    // One chunk of the final size halves the work.
    const chunkSize = Math.min(Math.max(statedSize(body, encoding) + 1, 16 * 1024), MAX_CHUNK_BYTES);
    return { kind: "plain", bytes: await gunzipAsync(body, { maxOutputLength: maxBytes, chunkSize }) };
  } catch (error) {
    return error instanceof RangeError ? tooLarge : { kind: "unreadable", reason: "broken_compression" };
  }
}

/** A body can't be unpacked. */
export class UnreadableBodyError extends Error {
  override readonly name = "UnreadableBodyError";
  readonly reason: string;

  constructor({ reason }: { readonly reason: string }) {
    super(`The body can't be read: ${reason}.`);
    this.reason = reason;
  }
}

/** Decompresses a body of any size chunk by chunk. Throws an UnreadableBodyError. */
export async function* plainChunks(body: Body, contentEncoding: string | null): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of unpacked(body, encodingOf(contentEncoding))) {
    bytes += chunk.length;
    if (bytes > MAX_LARGE_BYTES) throw new UnreadableBodyError({ reason: "body_too_large" });
    yield chunk;
  }
}

async function* unpacked(body: Body, encoding: string): AsyncGenerator<Buffer> {
  if (encoding === "identity" || encoding === "") {
    yield* chunksOf(body);
    return;
  }
  if (!isGzip(encoding)) throw new UnreadableBodyError({ reason: "unknown_encoding" });
  const unpacking = createGunzip({ chunkSize: UNPACKED_BYTES });
  // Its error is thrown by the loop, too.
  pipeline(chunksOf(body), unpacking).catch(() => {});
  try {
    yield* unpacking as AsyncIterable<Buffer>;
  } catch (error) {
    if (codeOf(error)?.startsWith("Z_") === true)
      throw new UnreadableBodyError({ reason: "broken_compression" });
    throw error;
  }
}
