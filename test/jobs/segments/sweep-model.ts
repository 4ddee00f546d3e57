import type { PageMember } from "../../../src/extract/pages.ts";
import type { AnsweredPage } from "../../../src/jobs/segments/sweep.ts";
import type { ProvenSpan } from "../../../src/load/feeds/members.ts";
import type { Random } from "../../support/seeded-random.ts";

const START_MS = Date.parse("2026-01-01T00:00:00Z");

/** The n-th moment of a model as stated in a response: 0 to 6 digits of a second, several moments within a millisecond. */
export function momentOf(n: number): string {
  const micros = Math.floor(n / 64) * 1_000_000 + (n % 64) * 125;
  const seconds = new Date(START_MS + Math.floor(micros / 1_000_000) * 1000).toISOString().slice(0, 19);
  const digits = String(micros % 1_000_000)
    .padStart(6, "0")
    .replace(/0+$/u, "");
  return `${seconds}${digits === "" ? "" : `.${digits}`}+00:00`;
}

/** Cache, because moments are few. */
const numbers = new Map<string, number>();

/** Inverse of {@link momentOf} for both forms. */
function numberOf(moment: string): number {
  const known = numbers.get(moment);
  if (known !== undefined) return known;
  const [seconds = "", digits = ""] = moment.replace(/Z$|\+00:00$/u, "").split(".");
  const number = ((Date.parse(`${seconds}Z`) - START_MS) / 1000) * 64 + Number(digits.padEnd(6, "0")) / 125;
  numbers.set(moment, number);
  return number;
}

/** A moment as Postgres returns it. */
const asStored = (moment: string): string => moment.replace("+00:00", "Z");

/** Order of the members of one moment. */
export type Ties = "stable" | "until_changed" | "every_request";

/** One segment at the service, changed at random between two requests. */
export interface ModelSegment {
  readonly pageSize: number;
  read(page: number): AnsweredPage;
  /** Changes the segment at random. */
  churn(): void;
  /** Stops all changes. */
  rest(): void;
  readonly living: ReadonlySet<string>;
  /** True for a member at the time of that response. */
  wasLivingAt(pid: string, seenAt: string): boolean;
  readonly requests: number;
}

interface ModelMember {
  readonly pid: string;
  readonly firstAt: number;
  isLiving: boolean;
}

/**
 * Creates a segment whose members are added in batches of one moment, some of them longer than a page.
 * @param options `pace`: share of requests before which something changes. `isCounterLate`: the stated size may be outdated.
 */
export function modelSegment(
  random: Random,
  options: { pageSize: number; ties: Ties; pace?: number; isCounterLate?: boolean },
): ModelSegment {
  const { pageSize, ties, pace = 1, isCounterLate = false } = options;
  let counted = 0;
  const members = new Map<string, ModelMember>();
  const living = new Set<string>();
  const lives = new Map<string, { from: number; to: number }[]>();
  let time = 0;
  let version = 0;
  let requests = 0;
  let isResting = false;

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
    pageSize,
    living,
    get requests() {
      return requests;
    },
    rest: () => {
      isResting = true;
    },
    churn() {
      if (isResting || !random.chance(pace)) return;
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
      if (isResting || !isCounterLate || random.chance(0.5)) counted = listed.length;
      const slice = listed.slice((number - 1) * pageSize, number * pageSize);
      return {
        page: number,
        seenAt: momentOf(time),
        members: slice.map(
          ({ pid, firstAt }): PageMember => ({
            servicePid: pid,
            firstAddedAt: momentOf(firstAt),
            extra: null,
          }),
        ),
        totalCount: counted,
        listContinues: number * pageSize < counted,
        unusable: 0,
        isSound: true,
      };
    },
    wasLivingAt(pid, seenAt) {
      const at = numberOf(seenAt);
      return (lives.get(pid) ?? []).some(({ from, to }) => from <= at && at < to);
    },
  };
}

/** Stored members of a segment, across sweeps. */
export interface ModelStore {
  readonly living: Set<string>;
  readonly firstAddedAt: Map<string, string>;
  readonly removals: { readonly pid: string; readonly seenAt: string }[];
}

/** Creates an empty store. */
export const emptyStore = (): ModelStore => ({ living: new Set(), firstAddedAt: new Map(), removals: [] });

function covers({ after, before }: ProvenSpan, at: string): boolean {
  return (
    (after === null || numberOf(at) > numberOf(after)) && (before === null || numberOf(at) < numberOf(before))
  );
}

/** Stores the members of a page and marks them as seen. */
export function takePage(store: ModelStore, seen: Set<string>, { members }: AnsweredPage): void {
  for (const { servicePid, firstAddedAt } of members) {
    seen.add(servicePid);
    store.living.add(servicePid);
    store.firstAddedAt.set(servicePid, firstAddedAt ?? "");
  }
}

/** Records removals of unseen members that a span proves; returns the moments of the others. */
export function settle(
  store: ModelStore,
  seen: ReadonlySet<string>,
  spans: readonly ProvenSpan[],
): readonly string[] {
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
  }
  return [...new Set(pending)].map(asStored);
}
