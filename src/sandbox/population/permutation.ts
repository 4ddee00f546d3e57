import { type HashKey, hash } from "./hash.ts";

/** A one-to-one mapping of the whole numbers below `2 ** bits`. */
interface Permutation {
  apply(value: number): number;
  invert(value: number): number;
}

/** Balanced Feistel network over an even number of bits, at most 32; each `stream` is another permutation. */
export function feistel(key: HashKey, bits: number, stream: number): Permutation {
  const half = 2 ** (bits / 2);
  const run = (value: number, rounds: readonly number[]): number => {
    let left = Math.floor(value / half);
    let right = value % half;
    for (const round of rounds) {
      const next = (left ^ hash(key, right, stream * 4 + round)) & (half - 1);
      left = right;
      right = next;
    }
    return right * half + left;
  };
  return { apply: (value) => run(value, [0, 1, 2, 3]), invert: (value) => run(value, [3, 2, 1, 0]) };
}

/** Permutes the whole numbers below any `size`, in at most 4 tries on average. */
export function shuffleBelow(key: HashKey, size: number, stream: number): (value: number) => number {
  let bits = 2;
  while (2 ** bits < size) bits += 2;
  const permutation = feistel(key, bits, stream);
  return (value) => {
    let moved = permutation.apply(value);
    while (moved >= size) moved = permutation.apply(moved);
    return moved;
  };
}
