import { below, chance, hash, hashKey } from "../population/hash.ts";

/** A repeatable sequence of random choices. */
export interface Dice {
  /** True for the given share (0 to 1) of calls. */
  chance(share: number): boolean;
  /** A whole number from 0 (inclusive) to `count` (exclusive). */
  below(count: number): number;
}

/** Random choices of one fault in one request: a pure function of seed, request number and rule. */
export function throwDice(seed: number, requestNumber: number, rule: number): Dice {
  const key = hashKey(seed);
  let thrown = rule * 65_536;
  const next = () => hash(key, requestNumber, thrown++);
  return { chance: (share) => chance(next(), share), below: (count) => below(next(), count) };
}
