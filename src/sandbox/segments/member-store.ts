import { type HashKey, hash } from "../population/hash.ts";

/** A present or former member. */
export interface Member {
  /** Number of the PID (see {@link Segments}). */
  readonly pid: number;
  /** Microseconds since the epoch. */
  readonly firstAddedUs: number;
  lastAddedUs: number;
  isMember: boolean;
}

/** Lifetime of the order of members that were first added at one moment. */
type TieOrder = "stable" | "until_changed" | "every_request";

/** Members of one segment, past ones included. */
export interface MemberStore {
  /** Number of present members. */
  readonly size: number;
  /** All present and former members, in the order of their first addition. */
  readonly ever: readonly Member[];
  /** True for a present or former member. */
  knows(pid: number): boolean;
  /** Adds or re-adds one at a moment (microseconds); false for a present member. */
  add(pid: number, atUs: number): boolean;
  /** Removes a member; false if the PID isn't one. */
  remove(pid: number): boolean;
  /** Present members in the order of the listing: newest first, those of one moment in a random order. */
  list(offset: number, count: number): readonly Member[];
  /** PID numbers of present members, in the order of their first addition. */
  livingPids(): Iterable<number>;
  ties: TieOrder;
  /** Fills an empty store. */
  restore(members: readonly Member[]): void;
}

/** Creates an empty store; `key` decides the order of ties. */
export function createMemberStore(key: HashKey): MemberStore {
  const byPid = new Map<number, Member>();
  const ever: Member[] = [];
  let size = 0;
  /** Present members in the order of the listing; null after a change. */
  let order: Member[] | null = null;
  let shuffles = 0;

  /** Shuffles every run of members of one moment. */
  const shuffleTies = (list: Member[]): void => {
    if (store.ties !== "stable") shuffles += 1;
    let bits = hash(key, shuffles, 0) | 1;
    let from = 0;
    for (const [i, member] of list.entries()) {
      if (list[from]?.firstAddedUs !== member.firstAddedUs) from = i;
      // Xorshift: a hash for each of a million members would be slow.
      bits ^= bits << 13;
      bits ^= bits >>> 17;
      bits ^= bits << 5;
      const j = from + ((bits >>> 0) % (i - from + 1));
      list[i] = list[j] ?? member;
      list[j] = member;
    }
  };
  const makeOrder = (): Member[] => {
    const list = ever.filter(({ isMember }) => isMember).toReversed();
    list.sort((a, b) => b.firstAddedUs - a.firstAddedUs);
    shuffleTies(list);
    return list;
  };
  const append = (member: Member): void => {
    byPid.set(member.pid, member);
    ever.push(member);
    if (member.isMember) size += 1;
  };

  const store: MemberStore = {
    ties: "until_changed",
    ever,
    get size() {
      return size;
    },
    knows: (pid) => byPid.has(pid),
    add(pid, atUs) {
      const known = byPid.get(pid);
      if (known) known.lastAddedUs = atUs;
      if (known?.isMember) return false;
      order = null;
      if (!known) append({ pid, firstAddedUs: atUs, lastAddedUs: atUs, isMember: true });
      else {
        known.isMember = true;
        size += 1;
      }
      return true;
    },
    remove(pid) {
      const known = byPid.get(pid);
      if (!known?.isMember) return false;
      known.isMember = false;
      size -= 1;
      order = null;
      return true;
    },
    list(offset, count) {
      if (order !== null && store.ties === "every_request") shuffleTies(order);
      order ??= makeOrder();
      return order.slice(offset, offset + count);
    },
    *livingPids() {
      for (const { pid, isMember } of ever) if (isMember) yield pid;
    },
    restore: (members) => members.forEach(append),
  };
  return store;
}
