import { hash } from "node:crypto";

/** Takes note of a text; says whether it was noted before. */
export type NoteText = (text: string) => boolean;

const FIRST_SLOTS = 1024;

/** Puts a pair into its slot; true if it is there already. */
function put(into: Uint32Array, low: number, high: number): boolean {
  const mask = into.length / 2 - 1;
  for (let slot = low & mask; ; slot = (slot + 1) & mask) {
    const at = 2 * slot;
    if (into[at] === low && into[at + 1] === high) return true;
    if (into[at] === 0 && into[at + 1] === 0) {
      into[at] = low;
      into[at + 1] = high;
      return false;
    }
  }
}

/**
 * Remembers texts by 64 bits of their hash, in 16 to 32 bytes each outside the JavaScript heap: as a Set of strings a hundred thousand of
 * them are 17 MB that the collector drags along. Two texts with the same bits, of which nobody will live to see a pair, count as one.
 */
export function createSeenTexts(): NoteText {
  // Pairs of numbers; a pair of zeros is a free slot.
  let slots = new Uint32Array(2 * FIRST_SLOTS);
  let used = 0;

  function grow(): void {
    const larger = new Uint32Array(2 * slots.length);
    for (let at = 0; at < slots.length; at += 2) {
      const [low = 0, high = 0] = [slots[at], slots[at + 1]];
      if (low !== 0 || high !== 0) put(larger, low, high);
    }
    slots = larger;
  }

  return (text) => {
    const bits = hash("sha1", text, "buffer");
    const isKnown = put(slots, bits.readUInt32LE(0), bits.readUInt32LE(4) || 1);
    if (!isKnown) used += 1;
    // At most half of the slots are used, so that a free one is never far.
    if (4 * used > slots.length) grow();
    return isKnown;
  };
}
