/** A repeatable sequence of random choices. */
export interface Random {
  /** From 0 (inclusive) to 1 (exclusive). */
  next(): number;
  /** A whole number from 0 (inclusive) to `count` (exclusive); 0 for a count below 1. */
  below(count: number): number;
  /** True for the given share (0 to 1) of calls. */
  chance(share: number): boolean;
  /** One item of a list that isn't empty. */
  pick<T>(items: readonly T[]): T;
}

/** 32 random-looking bits (mulberry32); advances the state. */
function step(state: Int32Array): number {
  const at = ((state[0] ?? 0) + 0x6d2b79f5) | 0;
  state[0] = at;
  let mixed = Math.imul(at ^ (at >>> 15), at | 1);
  mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
  return (mixed ^ (mixed >>> 14)) >>> 0;
}

/** Random choices derived from a seed and further numbers (case, round). */
export function seededRandom(...seeds: readonly number[]): Random {
  const state = new Int32Array([0x9e3779b9]);
  for (const seed of seeds) state[0] = step(state) ^ seed ^ Math.floor(seed / 2 ** 32);
  const next = () => step(state) / 2 ** 32;
  const below = (count: number) => Math.floor(next() * Math.max(1, count));
  return {
    next,
    below,
    chance: (share) => next() < share,
    pick(items) {
      const item = items[below(items.length)];
      if (item === undefined) throw new Error("pick needs a list with items");
      return item;
    },
  };
}

/**
 * Seed of a run of generated tests: PERSON_ETL_TEST_SEED, to reproduce a failure; otherwise the
 * given one, or a new one.
 */
export function testSeed(otherwise?: number): number {
  const wished = process.env["PERSON_ETL_TEST_SEED"];
  if (wished !== undefined && /^\d{1,15}$/u.test(wished)) return Number(wished);
  return otherwise ?? Math.floor(Math.random() * 1_000_000_000);
}
