import { type HashKey, hash } from "../population/hash.ts";

/** A member, or somebody who was one. */
export interface Member {
  /** Number of the PID (see {@link Segments}). */
  readonly pid: number;
  /** Microseconds since the epoch. */
  readonly firstAddedUs: number;
  readonly lastAddedUs: number;
  readonly isMember: boolean;
}

/** How long members that were first added at one moment keep their order: for good, or until the next change or request. */
export type TieOrder = "stable" | "until_changed" | "every_request";

/** The members of one segment, past ones included: 29 bytes each and 4 for their place in the list. */
export interface MemberStore {
  /** Living members. */
  readonly size: number;
  /** Living and former members. */
  readonly known: number;
  /** Whether it is or ever was one. */
  knows(pid: number): boolean;
  /** Adds or re-adds one at a moment (microseconds); false for somebody who is a member already. */
  add(pid: number, atUs: number): boolean;
  /** False for somebody who isn't a member. */
  remove(pid: number): boolean;
  /** Living members in the order of the listing: newest first, those of one moment in an order that means nothing. */
  list(offset: number, count: number): readonly Member[];
  /** PID numbers of the living, in the order in which they first came. */
  livingPids(): Iterable<number>;
  /** Everybody ever added, in the order in which they came. */
  ever(offset: number, count: number): readonly Member[];
  /** PID number of the first living or former member from a place in {@link ever} on, round once; null without one. */
  firstFrom(offset: number, isMember: boolean): number | null;
  ties: TieOrder;
  /** Everything but the order of ties, as bytes of this machine's own order; and the way back into an empty store. */
  state(): MemberState;
  restore(state: MemberState): void;
}

/** What a store holds, by the order in which people came. */
export interface MemberState {
  readonly pids: Uint32Array;
  readonly firstAdded: Float64Array;
  readonly lastAdded: Float64Array;
  readonly living: Uint8Array;
}

const EMPTY = -1;

/** An open-addressing map from PID numbers to slots. */
function createSlots(pids: () => Uint32Array) {
  let table = new Int32Array(1 << 10).fill(EMPTY);
  const placeOf = (pid: number): number => {
    let place = Math.imul(pid ^ (pid >>> 15), 0x2c1b3c6d) >>> 7;
    for (place &= table.length - 1; ; place = (place + 1) & (table.length - 1)) {
      const slot = table[place] ?? EMPTY;
      if (slot === EMPTY || pids()[slot] === pid) return place;
    }
  };
  return {
    find: (pid: number): number => table[placeOf(pid)] ?? EMPTY,
    put(pid: number, slot: number): void {
      if (slot > table.length * 0.6) {
        table = new Int32Array(table.length * 2).fill(EMPTY);
        for (let i = 0; i < slot; i++) table[placeOf(pids()[i] ?? 0)] = i;
      }
      table[placeOf(pid)] = slot;
    },
  };
}

function enlarged<T extends Uint32Array | Float64Array | Uint8Array>(from: T, to: T): T {
  to.set(from);
  return to;
}

/** Makes an empty store; `key` decides the order of ties. */
export function createMemberStore(key: HashKey): MemberStore {
  let capacity = 1 << 9;
  let known = 0;
  let size = 0;
  let pids = new Uint32Array(capacity);
  let firstAdded = new Float64Array(capacity);
  let lastAdded = new Float64Array(capacity);
  let living = new Uint8Array(capacity);
  /** Slots are in the order of `firstAdded`, save after a moment before the last one. */
  let inOrder = true;
  /** Living slots in the order of the listing; null when it has to be made anew. */
  let order: Uint32Array | null = null;
  let shuffles = 0;
  const slots = createSlots(() => pids);

  const grow = (): void => {
    capacity *= 2;
    pids = enlarged(pids, new Uint32Array(capacity));
    firstAdded = enlarged(firstAdded, new Float64Array(capacity));
    lastAdded = enlarged(lastAdded, new Float64Array(capacity));
    living = enlarged(living, new Uint8Array(capacity));
  };
  const at = (slot: number): Member => ({
    pid: pids[slot] ?? 0,
    firstAddedUs: firstAdded[slot] ?? 0,
    lastAddedUs: lastAdded[slot] ?? 0,
    isMember: living[slot] === 1,
  });
  const momentOf = (slot: number | undefined): number => firstAdded[slot ?? 0] ?? 0;

  /** Shuffles every run of slots of one moment, in time that grows with the list. */
  const shuffleTies = (list: Uint32Array): void => {
    if (store.ties !== "stable") shuffles += 1;
    let bits = hash(key, shuffles, 0) | 1;
    for (let from = 0; from < list.length; ) {
      const moment = firstAdded[list[from] ?? 0];
      let to = from + 1;
      while (to < list.length && firstAdded[list[to] ?? 0] === moment) to += 1;
      for (let i = to - 1; i > from; i--) {
        // Xorshift: a hash for each of a million would take longer than all the rest.
        bits ^= bits << 13;
        bits ^= bits >>> 17;
        bits ^= bits << 5;
        const j = from + ((bits >>> 0) % (i - from + 1));
        const moved = list[i] ?? 0;
        list[i] = list[j] ?? 0;
        list[j] = moved;
      }
      from = to;
    }
  };
  const makeOrder = (): Uint32Array => {
    const list = new Uint32Array(size);
    let filled = 0;
    for (let slot = known - 1; slot >= 0; slot--) if (living[slot] === 1) list[filled++] = slot;
    if (!inOrder) list.sort((a, b) => momentOf(b) - momentOf(a));
    shuffleTies(list);
    return list;
  };

  const store: MemberStore = {
    ties: "until_changed",
    get size() {
      return size;
    },
    get known() {
      return known;
    },
    knows: (pid) => slots.find(pid) !== EMPTY,
    add(pid, atUs) {
      const slot = slots.find(pid);
      if (slot !== EMPTY) {
        lastAdded[slot] = atUs;
        if (living[slot] === 1) return false;
        living[slot] = 1;
      } else {
        if (known === capacity) grow();
        if (known > 0 && atUs < momentOf(known - 1)) inOrder = false;
        pids[known] = pid;
        firstAdded[known] = atUs;
        lastAdded[known] = atUs;
        living[known] = 1;
        slots.put(pid, known);
        known += 1;
      }
      size += 1;
      order = null;
      return true;
    },
    remove(pid) {
      const slot = slots.find(pid);
      if (living[slot] !== 1) return false;
      living[slot] = 0;
      size -= 1;
      order = null;
      return true;
    },
    list(offset, count) {
      if (order !== null && store.ties === "every_request") shuffleTies(order);
      order ??= makeOrder();
      return Array.from(order.subarray(offset, offset + count), at);
    },
    firstFrom(offset, isMember) {
      const sought = isMember ? 1 : 0;
      const after = living.subarray(0, known).indexOf(sought, offset);
      const found = after === -1 ? living.subarray(0, offset).indexOf(sought) : after;
      return found === -1 ? null : (pids[found] ?? null);
    },
    *livingPids() {
      for (let slot = 0; slot < known; slot++) if (living[slot] === 1) yield pids[slot] ?? 0;
    },
    state: () => ({
      pids: pids.subarray(0, known),
      firstAdded: firstAdded.subarray(0, known),
      lastAdded: lastAdded.subarray(0, known),
      living: living.subarray(0, known),
    }),
    restore(state) {
      for (const [i, pid] of state.pids.entries()) {
        store.add(pid, state.firstAdded[i] ?? 0);
        if (state.living[i] === 0) store.remove(pid);
      }
      lastAdded.set(state.lastAdded);
    },
    ever: (offset, count) =>
      Array.from({ length: Math.max(0, Math.min(count, known - offset)) }, (_, i) => at(offset + i)),
  };
  return store;
}
