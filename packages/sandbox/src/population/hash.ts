/**
 * The population's only source of chance: stateless hashes of (key, index, stream), so that every fact of every
 * person can be computed alone, in any order, without memory.
 */

/** A key derived from the sandbox's seed; two seeds give unrelated populations. */
export interface HashKey {
  readonly a: number;
  readonly b: number;
}

/**
 * Stream numbers of `hash(key, index, stream)`, one per fact. Lists have wide ranges, because each field of an item has its
 * own stream (`base + item * width + field`).
 * 101 to 103 belong to PIDs (see `identifiers.ts`).
 */
export const STREAM = {
  family: 1, // up to 40
  name: 41, // up to 60
  person: 200, // up to 299
  contact: 300, // up to 399
  householdId: 400,
  addressId: 402,
  workId: 404,
  studyId: 406,
  address: 500, // 8 slots of 32
  moves: 1_000,
  career: 2_000,
  jobs: 3_000, // any number of jobs of 16
  newJobs: 20_000,
  studies: 30_000,
  emailValidity: 40_000, // 8 slots of 1,000
  sample: 60_000,
  death: 61_000, // up to 61,099
} as const;

function mix(value: number): number {
  let h = value | 0;
  h = Math.imul(h ^ (h >>> 16), 0x21f0aaad);
  h = Math.imul(h ^ (h >>> 15), 0x735a2d97);
  return (h ^ (h >>> 15)) >>> 0;
}

/** The key of a seed (any safe integer). */
export function hashKey(seed: number): HashKey {
  const a = mix(seed ^ mix(Math.floor(seed / 2 ** 32) ^ 0x3c6ef372));
  return { a, b: mix(a ^ 0x5bd1e995) };
}

/** 32 random-looking bits for one question (`stream`) about one thing (`index`). */
export function hash(key: HashKey, index: number, stream: number): number {
  let h = (Math.imul(index + 0x9e3779b9, 0x85ebca6b) ^ key.a) | 0;
  h = Math.imul(h ^ (h >>> 16), 0x21f0aaad) ^ Math.imul(stream + 1, 0x9e3779b1);
  h = Math.imul(h ^ (h >>> 15), 0x735a2d97) ^ key.b;
  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d);
  return (h ^ (h >>> 16)) >>> 0;
}

/** True for the given share (0 to 1) of hashes. */
export function chance(bits: number, share: number): boolean {
  return bits < share * 4294967296;
}

/** A whole number from 0 (inclusive) to `count` (exclusive), evenly spread. */
export function below(bits: number, count: number): number {
  return Math.floor((bits / 4294967296) * count);
}

/** One item of a list that isn't empty. */
export function pick<T>(items: readonly T[], bits: number): T {
  const item = items[below(bits, items.length)];
  if (item === undefined) throw new Error("pick needs a list with items.");
  return item;
}

/** A 64-bit hash of a text, as two words. */
export function hashText(text: string): readonly [number, number] {
  let high = 0x811c9dc5;
  let low = 0xc9dc5118;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    high = Math.imul(high ^ unit, 0x01000193);
    low = Math.imul(low ^ unit, 0x85ebca6b) ^ (low >>> 13);
  }
  return [mix(high ^ low), mix(low ^ (high >>> 7))];
}

/** Random choices of a fault or of churn in one request: a pure function of seed, request number and rule. */
export function throwDice(seed: number, requestNumber: number, rule: number) {
  const key = hashKey(seed);
  let thrown = rule * 65_536;
  const next = () => hash(key, requestNumber, thrown++);
  return {
    chance: (share: number) => chance(next(), share),
    below: (count: number) => below(next(), count),
  };
}

export type Dice = ReturnType<typeof throwDice>;
