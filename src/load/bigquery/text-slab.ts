const SLAB_BYTES = 1024 * 1024;
/** Bytes of a UTF-16 unit in UTF-8 at most. */
const MOST_BYTES = 3;

/** Puts pieces of text away as bytes, one behind the other. */
export type PutPieces = (pieces: readonly (string | Buffer)[]) => Buffer;

/**
 * Keeps lines outside the JavaScript heap, many in one slab, which lives as long as any of its lines. A buffer of its own for
 * each line, at ten thousand lines a second, is a hundred megabytes that neither the collector nor the allocator gives back in time.
 */
export function createTextSlab(slabBytes = SLAB_BYTES): PutPieces {
  let slab = Buffer.alloc(0);
  let at = 0;
  return (pieces) => {
    const most = pieces.reduce((sum, piece) => sum + mostBytes(piece), 0);
    if (at + most > slab.length) {
      slab = Buffer.allocUnsafeSlow(Math.max(slabBytes, most));
      at = 0;
    }
    const start = at;
    for (const piece of pieces) {
      at += typeof piece === "string" ? slab.write(piece, at, "utf8") : piece.copy(slab, at);
    }
    return slab.subarray(start, at);
  };
}

function mostBytes(piece: string | Buffer): number {
  return typeof piece === "string" ? piece.length * MOST_BYTES : piece.length;
}
