import { createReadStream } from "node:fs";

/** Consecutive bytes of a file. */
export interface FilePart {
  readonly path: string;
  readonly start: number;
  readonly length: number;
}

/** Bytes in memory, or in a file if they are too many. */
export type Body = Buffer | FilePart;

const READ_BYTES = 256 * 1024;

export function isFilePart(body: Body): body is FilePart {
  return !Buffer.isBuffer(body);
}

export async function* chunksOf(body: Body): AsyncGenerator<Buffer> {
  if (!isFilePart(body)) {
    yield body;
    return;
  }
  const { path, start, length } = body;
  if (length === 0) return;
  const end = start + length - 1;
  // Without an encoding, a stream's chunks are buffers.
  yield* createReadStream(path, { start, end, highWaterMark: READ_BYTES }) as AsyncIterable<Buffer>;
}

/** Least size that is worth it. Smaller buffers may share their memory with others. */
const LEAST_BYTES = 128 * 1024;

/**
 * Frees the memory of a large buffer at once. Nothing may read it afterwards, not even a write or decompression under way:
 * those run on threads, and hold no reference. The garbage collector would keep dozens of unused megabytes.
 */
export function freeBytes({ buffer }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength >= LEAST_BYTES) buffer.transfer(0);
}

/** Copies a chunk behind the first `length` bytes of a buffer. One that is too small is freed, and a larger one returned. */
export function appendBytes(buffer: Buffer, length: number, chunk: Buffer): Buffer {
  const end = length + chunk.length;
  let target = buffer;
  if (end > buffer.length) {
    target = Buffer.allocUnsafeSlow(Math.max(end, 2 * buffer.length));
    target.set(buffer.subarray(0, length));
    freeBytes(buffer);
  }
  target.set(chunk, length);
  return target;
}
