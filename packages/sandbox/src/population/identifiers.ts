import { type HashKey, hash } from "./hash.ts";

/** Largest population that identifiers support. */
export const MAX_PEOPLE = 2 ** 27;
/** Identifiers of one kind per person or household. */
export const SLOTS = 8;

/** One identifier of a person: `slot` is 0 to {@link SLOTS} - 1. */
export interface Slot {
  readonly index: number;
  readonly slot: number;
}

/** Characters that can't be mistaken for each other. */
const ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789";
/** Length of {@link codeText}. */
export const CODE_LENGTH = 6;

/** Permutes the numbers below `2 ** bits` (even, at most 32) by a Feistel network; each `stream` is another permutation. */
export function feistel(key: HashKey, bits: number, stream: number) {
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
  return {
    apply: (value: number) => run(value, [0, 1, 2, 3]),
    invert: (value: number) => run(value, [3, 2, 1, 0]),
  };
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

/** Spells a number below 2 ** 30 as six characters. */
export function codeText(value: number): string {
  let text = "";
  for (let shift = 25; shift >= 0; shift -= 5) text += ALPHABET[(value >>> shift) & 31];
  return text;
}

/** Reads six characters (lower case); null for other texts. */
export function codeValue(text: string): number | null {
  if (text.length !== CODE_LENGTH) return null;
  const digits = Array.from(text, (character) => ALPHABET.indexOf(character));
  return digits.includes(-1) ? null : digits.reduce((value, digit) => value * 32 + digit, 0);
}

const BYTES = Array.from({ length: 256 }, (_, value) => value.toString(16).padStart(2, "0"));

/** Eight hexadecimal digits of a 32-bit number. */
function hex(word: number): string {
  return `${BYTES[word >>> 24]}${BYTES[(word >>> 16) & 255]}${BYTES[(word >>> 8) & 255]}${BYTES[word & 255]}`;
}

export type Identifiers = ReturnType<typeof createIdentifiers>;

/** Makes the identifiers of a population of `people`; each leads back to its owner without memory. */
export function createIdentifiers(key: HashKey, people: number) {
  const bySlot = {
    email: feistel(key, 30, 1),
    phone: feistel(key, 30, 2),
    linkedin: feistel(key, 30, 3),
    address: feistel(key, 30, 4),
  };
  const pids = feistel(key, 32, 5);
  const pidOf = (number: number) =>
    `p-${hex(pids.apply(number))}${hex(hash(key, number, 101))}${hex(hash(key, number, 102))}${hex(hash(key, number, 103))}`;
  return {
    /** A number below 2 ** 30 that hides a slot. */
    hide: (kind: keyof typeof bySlot, index: number, slot: number) =>
      bySlot[kind].apply(index * SLOTS + slot),
    /** Slot of a number. Every number has one, so the caller compares the owner. */
    reveal(kind: keyof typeof bySlot, value: number): Slot {
      const number = bySlot[kind].invert(value);
      return { index: Math.floor(number / SLOTS), slot: number % SLOTS };
    },
    /** `p-` and 32 hexadecimal digits; `generation` is the number of earlier PIDs of the person, 0 to 15. */
    pid: (index: number, generation: number) => pidOf(generation * MAX_PEOPLE + index),
    /** Present or former owner of a PID (any letter case); null if there is none. */
    ownerOfPid(text: string): { readonly index: number; readonly generation: number } | null {
      const pid = text.trim().toLowerCase();
      if (!/^p-[0-9a-f]{32}$/.test(pid)) return null;
      const number = pids.invert(Number.parseInt(pid.slice(2, 10), 16));
      const index = number % MAX_PEOPLE;
      if (index >= people || pidOf(number) !== pid) return null;
      return { index, generation: Math.floor(number / MAX_PEOPLE) };
    },
    /** An opaque id such as `h-1f…` of something that belongs to an index; `slot` is 0 to 15. */
    opaqueId(prefix: string, stream: number, index: number, slot: number): string {
      const number = index * 16 + slot;
      return `${prefix}${hex(hash(key, number, stream))}${hex(hash(key, number, stream + 1))}`;
    },
  };
}
