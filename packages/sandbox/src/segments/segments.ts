import type { WorldClock } from "../population/calendar.ts";
import { hash, hashKey, hashText } from "../population/hash.ts";
import { MAX_PEOPLE } from "../population/identifiers.ts";
import type { People } from "../population/people.ts";

/** A present or former member. */
interface Member {
  /** Number of the PID (see {@link createSegments}). */
  readonly pid: number;
  /** Microseconds since the epoch. */
  readonly firstAddedUs: number;
  lastAddedUs: number;
  isMember: boolean;
}

/** Lifetime of the order of members that were first added at one moment. */
type TieOrder = "stable" | "until_changed" | "every_request";

type MemberStore = ReturnType<typeof createMemberStore>;

/** Creates an empty store of the members of a segment, past ones included; `seed` decides the order of ties. */
function createMemberStore(seed: number) {
  const key = hashKey(seed);
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

  const store = {
    ties: "until_changed" as TieOrder,
    /** All present and former members, in the order of their first addition. */
    ever: ever as readonly Member[],
    size: () => size,
    /** Adds or re-adds one at a moment (microseconds); false for a present member. */
    add(pid: number, atUs: number): boolean {
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
    /** Removes a member; false if the PID isn't one. */
    remove(pid: number): boolean {
      const known = byPid.get(pid);
      if (!known?.isMember) return false;
      known.isMember = false;
      size -= 1;
      order = null;
      return true;
    },
    /** Present members in the order of the listing: newest first, those of one moment in a random order. */
    list(offset: number, count: number): readonly Member[] {
      if (order !== null && store.ties === "every_request") shuffleTies(order);
      order ??= makeOrder();
      return order.slice(offset, offset + count);
    },
    /** Fills an empty store. */
    restore: (members: readonly Member[]) => members.forEach(append),
  };
  return store;
}

/** Change of members between two requests for pages: PIDs. */
interface MemberChange {
  readonly add: readonly string[];
  readonly remove: readonly string[];
}

/** A segment of section 2.2 with its members. */
export interface Segment {
  readonly segmentId: string;
  readonly organization: string;
  readonly name: string;
  readonly description: string | null;
  readonly members: MemberStore;
  /** Changes of the segment while its pages are read. */
  hooks: {
    /** Requests for pages that were answered since the hooks were set. */
    served: number;
    /** Changes by the number of the request (from 1) that they follow. */
    readonly after: ReadonlyMap<number, MemberChange>;
  };
}

/** Returns strictly increasing moments, unless the clock was moved back. */
function createMoments(clock: WorldClock): () => number {
  let last = 0;
  return () => {
    const now = Math.floor(clock.nowMs()) * 1000 + Number(process.hrtime.bigint() % 1000n);
    const isJustBehind = now <= last && last - now < 1_000_000;
    last = isJustBehind ? last + 1 : now;
    return last;
  };
}

export type Segments = ReturnType<typeof createSegments>;

/**
 * Creates the segments of an empty world, of all organizations. A PID is stored as a number: its generation times
 * {@link MAX_PEOPLE} plus the person's index, so a person who got another PID is a member under the one that was added.
 */
export function createSegments(seed: number, people: People, clock: WorldClock) {
  const byId = new Map<string, Segment>();
  /** Signals set by the controls, by PID number and id. */
  const statedDeaths = new Map<number, Map<string, object>>();
  /** Ids of signals of the population that are removed or replaced. */
  const hiddenDeaths = new Set<string>();
  const nextMoment = createMoments(clock);
  /** Number of a PID that exists today; null for any other. */
  const pidNumber = (pid: string): number | null => {
    if (people.findByPid(pid, clock.today()) === null) return null;
    const owner = people.identifiers.ownerOfPid(pid);
    return owner && owner.generation * MAX_PEOPLE + owner.index;
  };
  const pidText = (pid: number): string =>
    people.identifiers.pid(pid % MAX_PEOPLE, Math.floor(pid / MAX_PEOPLE));
  const change = (pids: readonly string[], apply: (pid: number) => boolean) => {
    const invalid = new Set<string>();
    let changed = 0;
    let redundant = 0;
    for (const pid of pids) {
      const number = pidNumber(pid);
      if (number === null) invalid.add(pid);
      else if (apply(number)) changed += 1;
      else redundant += 1;
    }
    // Each unknown PID once, as it was sent.
    return { invalid: [...invalid], changed, redundant };
  };
  /** Adds all PIDs at one moment, now by default (microseconds). */
  const add = (segment: Segment, pids: readonly string[], atUs = nextMoment()) =>
    change(pids, (pid) => segment.members.add(pid, atUs));
  const remove = (segment: Segment, pids: readonly string[]) =>
    change(pids, (pid) => segment.members.remove(pid));

  return {
    statedDeaths,
    hiddenDeaths,
    pidNumber,
    pidText,
    add,
    remove,
    /** Null if the organization has a segment of that name, or the id is taken. */
    create(wanted: Pick<Segment, "segmentId" | "organization" | "name" | "description">): Segment | null {
      const { organization, name, description } = wanted;
      const segmentId = wanted.segmentId.toLowerCase();
      const isTaken = [...byId.values()].some(
        (other) => other.organization === organization && other.name === name,
      );
      if (isTaken || byId.has(segmentId)) return null;
      const members = createMemberStore(seed + hashText(segmentId)[0]);
      const hooks = { served: 0, after: new Map() };
      const segment: Segment = { segmentId, organization, name, description, members, hooks };
      byId.set(segmentId, segment);
      return segment;
    },
    /** Null for a segment that doesn't exist or belongs to another organization. */
    find(organization: string, segmentId: string): Segment | null {
      const segment = byId.get(segmentId.toLowerCase());
      return segment?.organization === organization ? segment : null;
    },
    delete: (segmentId: string) => byId.delete(segmentId.toLowerCase()),
    all: () => [...byId.values()],
    /** Counts a page that was read, and makes the changes that follow it. */
    pageServed(segment: Segment): void {
      segment.hooks.served += 1;
      const change = segment.hooks.after.get(segment.hooks.served);
      if (!change) return;
      remove(segment, change.remove);
      add(segment, change.add);
    },
  };
}
