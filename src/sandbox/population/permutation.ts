import { type HashKey, hash } from "./hash.ts";

/** A one-to-one scrambling of the whole numbers below `2 ** bits`. */
export interface Permutation {
  /** How many numbers it scrambles: 0 (inclusive) to `size` (exclusive). */
  readonly size: number;
  apply(value: number): number;
  invert(value: number): number;
}

const ROUNDS = 4;

/** A balanced Feistel network over an even number of bits, at most 32; `stream` tells permutations of one key apart. */
export function feistel(key: HashKey, bits: number, stream: number): Permutation {
  const half = bits / 2;
  if (!Number.isInteger(half) || bits < 2 || bits > 32)
    throw new Error("feistel needs an even number of bits, 2 to 32.");
  const halfSize = 2 ** half;
  const mask = halfSize - 1;
  const round = (value: number, number: number) => hash(key, value, stream * ROUNDS + number) & mask;
  return {
    size: 2 ** bits,
    apply(value) {
      let left = Math.floor(value / halfSize);
      let right = value & mask;
      for (let i = 0; i < ROUNDS; i++) {
        const next = left ^ round(right, i);
        left = right;
        right = next;
      }
      return left * halfSize + right;
    },
    invert(value) {
      let left = Math.floor(value / halfSize);
      let right = value & mask;
      for (let i = ROUNDS - 1; i >= 0; i--) {
        const previous = right ^ round(left, i);
        right = left;
        left = previous;
      }
      return left * halfSize + right;
    },
  };
}

/** A one-to-one scrambling of the whole numbers below any `size` (cycle walking: at most 4 tries on average). */
export function shuffleBelow(key: HashKey, size: number, stream: number): (value: number) => number {
  let bits = 2;
  while (2 ** bits < size) bits += 2;
  const inner = feistel(key, bits, stream);
  return (value) => {
    let moved = inner.apply(value);
    while (moved >= size) moved = inner.apply(moved);
    return moved;
  };
}
