import { hashKey, hashText } from "../population/hash.ts";
import { MAX_PEOPLE } from "../population/identifiers.ts";
import type { People } from "../population/people.ts";
import type { WorldClock } from "../world-clock.ts";
import { createMemberStore, type MemberStore } from "./member-store.ts";

/** Change of members between two requests for pages: PIDs. */
export interface MemberChange {
  readonly add: readonly string[];
  readonly remove: readonly string[];
}

/** Random changes after every request for a page: numbers of new, former and present members. */
interface Churn {
  readonly seed: number;
  readonly adds: number;
  readonly readds: number;
  readonly removes: number;
}

/** Changes of one segment while its pages are read. */
interface PageHooks {
  /** Requests for pages that were answered since the hooks were set. */
  served: number;
  /** Changes by the number of the request (from 1) that they follow. */
  readonly after: Map<number, MemberChange>;
  churn: Churn | null;
}

/** A segment of section 2.2 with its members. */
export interface Segment {
  readonly segmentId: string;
  readonly organization: string;
  readonly name: string;
  readonly description: string | null;
  readonly members: MemberStore;
  readonly hooks: PageHooks;
}

/** Outcome of a change. */
export interface ChangeResult {
  /** Each unknown PID once, as it was sent. */
  readonly invalid: readonly string[];
  readonly changed: number;
  /** Valid PIDs that the change didn't affect. */
  readonly redundant: number;
}

/**
 * Segments of all organizations. A PID is stored as a number: its generation times {@link MAX_PEOPLE} plus the person's index, so
 * a person who got another PID is a member under the one that was added.
 */
export interface Segments {
  /** Null if the organization has a segment of that name, or the id is taken. */
  create(segment: {
    readonly organization: string;
    readonly name: string;
    readonly description: string | null;
    readonly segmentId: string;
  }): Segment | null;
  /** Null for a segment that doesn't exist or belongs to another organization. */
  find(organization: string, segmentId: string): Segment | null;
  delete(segmentId: string): boolean;
  all(): readonly Segment[];
  /** Adds all PIDs at one moment, now by default (microseconds). */
  add(segment: Segment, pids: readonly string[], atUs?: number): ChangeResult;
  remove(segment: Segment, pids: readonly string[]): ChangeResult;
  pidText(this: void, pid: number): string;
  /** Number of a PID that exists today; null for any other. */
  pidNumber(this: void, pid: string): number | null;
  reset(): void;
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

/** Creates the segments of an empty world. */
export function createSegments({
  seed,
  people,
  clock,
}: {
  readonly seed: number;
  readonly people: People;
  readonly clock: WorldClock;
}): Segments {
  const byId = new Map<string, Segment>();
  const nextMoment = createMoments(clock);
  const pidNumber = (pid: string): number | null => {
    if (people.findByPid(pid, clock.today()) === null) return null;
    const owner = people.identifiers.ownerOfPid(pid);
    return owner && owner.generation * MAX_PEOPLE + owner.index;
  };
  const change = (pids: readonly string[], apply: (pid: number) => boolean): ChangeResult => {
    const invalid = new Set<string>();
    let changed = 0;
    let redundant = 0;
    for (const pid of pids) {
      const number = pidNumber(pid);
      if (number === null) invalid.add(pid);
      else if (apply(number)) changed += 1;
      else redundant += 1;
    }
    return { invalid: [...invalid], changed, redundant };
  };
  return {
    create({ organization, name, description, segmentId: wantedId }) {
      const segmentId = wantedId.toLowerCase();
      const isTaken = [...byId.values()].some(
        (other) => other.organization === organization && other.name === name,
      );
      if (isTaken || byId.has(segmentId)) return null;
      const members = createMemberStore(hashKey(seed + hashText(segmentId)[0]));
      const hooks = { served: 0, after: new Map(), churn: null };
      const segment = { segmentId, organization, name, description, members, hooks };
      byId.set(segmentId, segment);
      return segment;
    },
    find(organization, segmentId) {
      const segment = byId.get(segmentId.toLowerCase());
      return segment?.organization === organization ? segment : null;
    },
    delete: (segmentId) => byId.delete(segmentId.toLowerCase()),
    all: () => [...byId.values()],
    add: (segment, pids, atUs = nextMoment()) => change(pids, (pid) => segment.members.add(pid, atUs)),
    remove: (segment, pids) => change(pids, (pid) => segment.members.remove(pid)),
    pidText: (pid) => people.identifiers.pid(pid % MAX_PEOPLE, Math.floor(pid / MAX_PEOPLE)),
    pidNumber,
    reset: () => byId.clear(),
  };
}
