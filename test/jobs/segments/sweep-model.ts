import type { MemberPage, PageMember } from "../../../src/extract/segment-page.ts";
import type { AnsweredPage, SweepParts } from "../../../src/jobs/segments/sweep-members.ts";
import type { ProvenSpan, SeenMember } from "../../../src/load/feeds/segments.ts";
import type { Random } from "../../support/seeded-random.ts";

const START_MS = Date.parse("2026-01-01T00:00:00Z");

/** The n-th moment of a model as an answer is read: 0 to 6 digits of a second, several moments within a millisecond. */
export function momentOf(n: number): string {
  const micros = Math.floor(n / 64) * 1_000_000 + (n % 64) * 125;
  const seconds = new Date(START_MS + Math.floor(micros / 1_000_000) * 1000).toISOString().slice(0, 19);
  const digits = String(micros % 1_000_000)
    .padStart(6, "0")
    .replace(/0+$/u, "");
  return `${seconds}${digits === "" ? "" : `.${digits}`}+00:00`;
}

/** Moments that were read: they are few, and asked for again and again. */
const numbers = new Map<string, number>();

/** The inverse of {@link momentOf}, of either form. */
function numberOf(moment: string): number {
  const known = numbers.get(moment);
  if (known !== undefined) return known;
  const [seconds = "", digits = ""] = moment.replace(/Z$|\+00:00$/u, "").split(".");
  const number = ((Date.parse(`${seconds}Z`) - START_MS) / 1000) * 64 + Number(digits.padEnd(6, "0")) / 125;
  numbers.set(moment, number);
  return number;
}

/** A moment as warehouses give it back. */
const asStored = (moment: string): string => moment.replace("+00:00", "Z");

/** How the members of one moment are ordered. */
export type Ties = "stable" | "until_changed" | "every_request";

/** The service's side of one segment, changed at random between any two requests. */
export interface ModelSegment {
  read(page: number): AnsweredPage;
  /** Something that befalls the segment. */
  churn(): void;
  /** Nothing happens from now on. */
  rest(): void;
  /** From now on nothing happens but that some members leave and come back, again and again after so many requests. */
  beat(period: number, dancers: "one" | "some" | "in_turn"): void;
  readonly living: ReadonlySet<string>;
  /** Whether somebody was a member when the answer of that time was given. */
  wasLivingAt(pid: string, seenAt: string): boolean;
  readonly requests: number;
}

interface ModelMember {
  readonly pid: string;
  readonly firstAt: number;
  isLiving: boolean;
}

/** Makes a segment whose adds come in batches of one moment, some of them as long as a page or longer. */
export function modelSegment(random: Random, options: { pageSize: number; ties: Ties }): ModelSegment {
  const { pageSize, ties } = options;
  const members = new Map<string, ModelMember>();
  const living = new Set<string>();
  const lives = new Map<string, { from: number; to: number }[]>();
  let time = 0;
  let version = 0;
  let requests = 0;
  let isResting = false;
  let dance: readonly { readonly member: ModelMember; readonly steps: readonly boolean[] }[] = [];

  function set(member: ModelMember, isLiving: boolean): void {
    if (member.isLiving === isLiving) return;
    member.isLiving = isLiving;
    version += 1;
    const spans = lives.get(member.pid) ?? [];
    lives.set(member.pid, spans);
    if (isLiving) {
      living.add(member.pid);
      spans.push({ from: time, to: Number.POSITIVE_INFINITY });
    } else {
      living.delete(member.pid);
      const last = spans.at(-1);
      if (last) last.to = time;
    }
  }

  function addNew(count: number): void {
    for (let i = 0; i < count; i++) {
      const member = { pid: `p-${members.size}`, firstAt: time, isLiving: false };
      members.set(member.pid, member);
      set(member, true);
    }
  }

  function pick(isLiving: boolean): ModelMember | undefined {
    const candidates = [...members.values()].filter((member) => member.isLiving === isLiving);
    return candidates[random.below(candidates.length)];
  }

  function orderOf({ pid }: ModelMember): number {
    const salt = ties === "stable" ? 0 : ties === "until_changed" ? version : requests;
    let hash = salt * 2654435761;
    for (const c of pid) hash = Math.imul(hash ^ c.charCodeAt(0), 0x01000193) ^ (hash >>> 13);
    return hash >>> 0;
  }

  addNew(random.below(3 * pageSize));
  for (let batch = random.below(6); batch > 0; batch--) {
    time += 1;
    addNew(1 + random.below(random.below(3) === 0 ? 2 * pageSize : 3));
  }

  return {
    living,
    get requests() {
      return requests;
    },
    rest: () => {
      isResting = true;
      dance = [];
    },
    beat(period, dancers) {
      const count = dancers === "one" ? 1 : dancers === "some" ? 1 + random.below(3) : period;
      const chosen = new Set(Array.from({ length: count }, () => pick(true)));
      const isInOnce = random.chance(0.5);
      dance = [...chosen].flatMap((member, turn) => {
        const odd = dancers === "in_turn" ? turn : random.below(period);
        const inOnce = dancers === "in_turn" ? isInOnce : random.chance(0.5);
        const steps = Array.from({ length: period }, (_, step) => (step === odd) === inOnce);
        return member ? [{ member, steps }] : [];
      });
    },
    churn() {
      if (dance.length > 0) time += 1;
      for (const { member, steps } of dance) set(member, steps[requests % steps.length] ?? true);
      if (isResting) return;
      time += 1;
      for (let ops = random.below(4); ops > 0; ops--) {
        const kind = random.below(10);
        if (kind < 4) {
          const member = pick(true);
          if (member) set(member, false);
        } else if (kind < 7) {
          const member = pick(false);
          if (member) set(member, true);
        } else addNew(1 + random.below(random.below(8) === 0 ? pageSize + 1 : 2));
      }
    },
    read(number) {
      this.churn();
      time += 1;
      requests += 1;
      const listed = [...members.values()]
        .filter(({ isLiving }) => isLiving)
        .toSorted((a, b) => b.firstAt - a.firstAt || orderOf(a) - orderOf(b));
      const slice = listed.slice((number - 1) * pageSize, number * pageSize);
      const page: MemberPage = {
        members: slice.map(
          ({ pid, firstAt }): PageMember => ({
            servicePid: pid,
            firstAddedAt: momentOf(firstAt),
            extra: null,
          }),
        ),
        totalCount: listed.length,
        listContinues: number * pageSize < listed.length,
        isSound: true,
      };
      return { page, seenAt: momentOf(time) };
    },
    wasLivingAt(pid, seenAt) {
      const at = numberOf(seenAt);
      return (lives.get(pid) ?? []).some(({ from, to }) => from <= at && at < to);
    },
  };
}

/** What is known of a segment, kept as a warehouse would; lives from sweep to sweep. */
export interface ModelStore {
  readonly living: Set<string>;
  readonly firstAddedAt: Map<string, string>;
  readonly removals: { readonly pid: string; readonly seenAt: string }[];
}

/** Nothing is known. */
export const emptyStore = (): ModelStore => ({ living: new Set(), firstAddedAt: new Map(), removals: [] });

function covers({ after, before }: ProvenSpan, at: string): boolean {
  return (
    (after === null || numberOf(at) > numberOf(after)) && (before === null || numberOf(at) < numberOf(before))
  );
}

/** The parts of one sweep over a model; `add` and `settle` are the words of the interface, written down plainly. */
export function partsOf(segment: ModelSegment, store: ModelStore, pagesPerCommit: number): SweepParts {
  const seen = new Set<string>();
  return {
    pagesPerCommit,
    read: async (page) => segment.read(page),
    async add(members: readonly SeenMember[]) {
      let added = 0;
      for (const { servicePid, firstAddedAt } of members) {
        seen.add(servicePid);
        if (!store.living.has(servicePid)) added += 1;
        store.living.add(servicePid);
        store.firstAddedAt.set(servicePid, firstAddedAt ?? "");
      }
      return { added, suppressed: 0, rowsWritten: 0 };
    },
    async settle(spans) {
      let removed = 0;
      const pending: string[] = [];
      for (const pid of store.living) {
        if (seen.has(pid)) continue;
        const at = store.firstAddedAt.get(pid) ?? "";
        const proofs = spans.filter((span) => covers(span, at)).map(({ seenAt }) => seenAt);
        const [seenAt] = proofs.toSorted((a, b) => numberOf(a) - numberOf(b));
        if (seenAt === undefined) {
          pending.push(at);
          continue;
        }
        store.living.delete(pid);
        store.removals.push({ pid, seenAt });
        removed += 1;
      }
      const pendingAt = [...new Set(pending)].map(asStored);
      return { removed, pending: pending.length, pendingAt, rowsWritten: 0 };
    },
  };
}
