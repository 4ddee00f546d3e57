import { type HashKey, hash } from "./hash.ts";
import { feistel } from "./permutation.ts";

/** Largest population that identifiers support. */
export const MAX_PEOPLE = 2 ** 27;
/** Identifiers of one kind per person or household. */
export const SLOTS = 8;

/** One identifier of a person: `slot` is 0 to {@link SLOTS} - 1. */
export interface Slot {
  readonly index: number;
  readonly slot: number;
}

/** Kinds of identifiers that hide a {@link Slot}. */
type SlotKind = "email" | "phone" | "linkedin" | "address";

/** Characters that can't be mistaken for each other. */
const ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789";
/** Length of {@link codeText}. */
export const CODE_LENGTH = 6;

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

/** Identifiers of one population; each leads back to its owner without memory. */
export interface Identifiers {
  /** A number below 2 ** 30 that hides a slot. */
  hide(kind: SlotKind, index: number, slot: number): number;
  /** Slot of a number. Every number has one, so the caller compares the owner. */
  reveal(kind: SlotKind, value: number): Slot;
  /** `p-` and 32 hexadecimal digits; `generation` is the number of earlier PIDs of the person, 0 to 15. */
  pid(index: number, generation: number): string;
  /** Present or former owner of a PID (any letter case); null if there is none. */
  ownerOfPid(pid: string): { readonly index: number; readonly generation: number } | null;
  /** An opaque id such as `h-1f…` of something that belongs to an index; `slot` is 0 to 15. */
  opaqueId(prefix: string, stream: number, index: number, slot: number): string;
}

/** Makes the identifiers of a population of `people`. */
export function createIdentifiers(key: HashKey, people: number): Identifiers {
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
