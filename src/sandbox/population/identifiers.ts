import { type HashKey, hash } from "./hash.ts";
import { feistel } from "./permutation.ts";

/** The largest population: identifiers have room for this many people. */
export const MAX_PEOPLE = 2 ** 27;
/** Identifiers of one kind that a person (or a household) can have in all. */
export const SLOTS = 8;

/** A person's `index` and one of the `SLOTS` numbers that tell the person's identifiers of one kind apart. */
export interface Slot {
  readonly index: number;
  readonly slot: number;
}

/** Kinds of identifiers; each has a scrambling of its own. */
const KINDS = { email: 1, phone: 2, linkedin: 3, address: 4, pid: 5 } as const;
/** Kinds of identifiers that hide a {@link Slot}. */
export type SlotKind = Exclude<keyof typeof KINDS, "pid">;

/** Thirty-two characters that can't be mistaken for each other; case doesn't matter. */
const ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789";
const VALUES = new Map(ALPHABET.split("").map((character, value) => [character, value]));
/** Length of {@link codeText}. */
export const CODE_LENGTH = 6;

/** Six characters for a number below 2 ** 30. */
export function codeText(value: number): string {
  let text = "";
  for (let shift = 25; shift >= 0; shift -= 5) text += ALPHABET[(value >>> shift) & 31];
  return text;
}

/** The number behind six characters (lower case), or null. */
export function codeValue(text: string): number | null {
  if (text.length !== CODE_LENGTH) return null;
  let value = 0;
  for (const character of text) {
    const digit = VALUES.get(character);
    if (digit === undefined) return null;
    value = value * 32 + digit;
  }
  return value;
}

const hexTable = (digits: number): readonly string[] =>
  Array.from({ length: 16 ** digits }, (_, value) => value.toString(16).padStart(digits, "0"));
const HEX_2 = hexTable(2);
const HEX_3 = hexTable(3);

/** Eight hexadecimal digits of a 32-bit number. */
export function hex(word: number): string {
  return `${HEX_3[word >>> 20]}${HEX_3[(word >>> 8) & 4095]}${HEX_2[word & 255]}`;
}

/** The identifiers of one population, all of which lead back to whom they belong. */
export interface Identifiers {
  /** A number below 2 ** 30 that hides a slot. */
  hide(kind: SlotKind, index: number, slot: number): number;
  /** The slot that a number hides; any number hides one, so the caller has to compare what it finds. */
  reveal(kind: SlotKind, value: number): Slot;
  /** `p-` and 32 hexadecimal digits. `generation` counts how often the person got a new PID, 0 to 15. */
  pid(index: number, generation: number): string;
  /** Whose PID that is or was (any letter case), or null when it is nobody's. */
  ownerOfPid(pid: string): { readonly index: number; readonly generation: number } | null;
  /** An opaque id such as `h-1f…` of something that belongs to an index; `slot` 0 to 15 tells several apart. */
  opaqueId(prefix: string, stream: number, index: number, slot: number): string;
}

/** Makes the identifiers of a population of `people`. */
export function createIdentifiers(key: HashKey, people: number): Identifiers {
  const bySlot = {
    email: feistel(key, 30, KINDS.email),
    phone: feistel(key, 30, KINDS.phone),
    linkedin: feistel(key, 30, KINDS.linkedin),
    address: feistel(key, 30, KINDS.address),
  } satisfies Record<SlotKind, unknown>;
  const pids = feistel(key, 32, KINDS.pid);
  const pidOf = (number: number) =>
    `p-${hex(pids.apply(number))}${hex(hash(key, number, 101))}${hex(hash(key, number, 102))}${hex(hash(key, number, 103))}`;
  return {
    hide: (kind, index, slot) => bySlot[kind].apply(index * SLOTS + slot),
    reveal(kind, value) {
      const number = bySlot[kind].invert(value);
      return { index: Math.floor(number / SLOTS), slot: number % SLOTS };
    },
    pid: (index, generation) => pidOf(generation * MAX_PEOPLE + index),
    ownerOfPid(text) {
      const pid = text.trim().toLowerCase();
      if (!/^p-[0-9a-f]{32}$/.test(pid)) return null;
      const number = pids.invert(Number.parseInt(pid.slice(2, 10), 16));
      const index = number % MAX_PEOPLE;
      if (index >= people || pidOf(number) !== pid) return null;
      return { index, generation: Math.floor(number / MAX_PEOPLE) };
    },
    opaqueId(prefix, stream, index, slot) {
      const number = index * 16 + slot;
      return `${prefix}${hex(hash(key, number, stream))}${hex(hash(key, number, stream + 1))}`;
    },
  };
}
