/** Least size that is worth it. Smaller buffers may share their memory with others. */
const LEAST_BYTES = 128 * 1024;

/**
 * Frees the memory of a large buffer at once. Nothing may read it afterwards, not even a write or decompression under way:
 * those run on threads, and hold no reference. The garbage collector would keep dozens of unused megabytes.
 */
export function freeBytes({ buffer }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength >= LEAST_BYTES) buffer.transfer(0);
}
