import { createHash } from "node:crypto";
import type { MemberPage } from "../../extract/segment-page.ts";
import type { ProvenSpan } from "../../load/feeds/segments.ts";
import { type Cell, microsOf } from "../../schemas/convert.ts";

/** What is kept of a page that was read: enough to prove absences, nothing of its members. */
export interface PageFacts {
  /** From 1. */
  readonly page: number;
  readonly size: number;
  /** `first_added_at` of its first and last element; null for an empty page. */
  readonly newest: Cell;
  readonly oldest: Cell;
  readonly totalCount: number;
  /** Nobody is older than its elements: it is the last one, and full up to the total. */
  readonly isLast: boolean;
  readonly isSound: boolean;
  readonly seenAt: string;
}

/** @param pageSize elements of a page that others follow; null while none was seen. */
export function factsOf(page: number, read: MemberPage, seenAt: string, pageSize: number | null): PageFacts {
  const { members, totalCount, listContinues, isSound } = read;
  const before = page === 1 ? 0 : pageSize === null ? null : (page - 1) * pageSize;
  return {
    page,
    size: members.length,
    newest: members[0]?.firstAddedAt ?? null,
    oldest: members.at(-1)?.firstAddedAt ?? null,
    totalCount,
    isLast: !listContinues && before !== null && before + members.length === totalCount,
    isSound,
    seenAt,
  };
}

/**
 * The span of which one answer shows everybody: between its first and its last element, both exclusive, since others of the
 * same moment may stand on the neighbouring pages. Nobody is newer than the first page, or older than the last.
 */
export function spanOf({
  page,
  size,
  newest,
  oldest,
  isLast,
  isSound,
  seenAt,
}: PageFacts): ProvenSpan | null {
  if (!isSound) return null;
  if (size === 0) return page === 1 && isLast ? { after: null, before: null, seenAt } : null;
  return { after: isLast ? null : oldest, before: page === 1 ? null : newest, seenAt };
}

/** Pages in a row, both inclusive. */
export interface PageRange {
  readonly from: number;
  readonly to: number;
}

/**
 * The pages whose edges or ties may hold members of given moments: those that contain one, and the next ones to both sides, which
 * show that nothing else lies between. Ranges that touch are one.
 * @param pages in the order of their numbers.
 */
export function rangesAround(moments: readonly Cell[], pages: readonly PageFacts[]): readonly PageRange[] {
  const last = pages.at(-1)?.page ?? 1;
  const edges = pages.flatMap(({ page, newest, oldest }) =>
    newest === null || oldest === null ? [] : [{ page, newest: microsOf(newest), oldest: microsOf(oldest) }],
  );
  const ranges = moments.map((moment): PageRange => {
    if (moment === null) return { from: 1, to: last };
    const at = microsOf(moment);
    const above = edges.findLast(({ oldest }) => oldest > at)?.page ?? 1;
    const below = edges.find(({ newest }) => newest < at)?.page ?? last;
    return { from: Math.min(above, below), to: Math.max(above, below) };
  });
  const merged: PageRange[] = [];
  for (const range of ranges.toSorted((a, b) => a.from - b.from)) {
    const before = merged.at(-1);
    if (before && range.from <= before.to) {
      merged[merged.length - 1] = { from: before.from, to: Math.max(before.to, range.to) };
    } else merged.push(range);
  }
  return merged;
}

/** The pages over whose edges people of one moment stand: in another order next time, some of them on another page. */
export function rangesOfTies(pages: readonly PageFacts[]): readonly PageRange[] {
  const ranges: PageRange[] = [];
  for (const [i, { page, newest }] of pages.entries()) {
    const before = pages[i - 1];
    if (before?.page !== page - 1 || newest === null || before.oldest === null) continue;
    if (microsOf(before.oldest) !== microsOf(newest)) continue;
    const last = ranges.at(-1);
    if (last?.to === before.page) ranges[ranges.length - 1] = { from: last.from, to: page };
    else ranges.push({ from: before.page, to: page });
  }
  return ranges;
}

/** Pages in a row that were read one after the other. */
export interface PageRun {
  readonly facts: readonly PageFacts[];
  /** Equal for runs of the same pages with the same members, in whatever order those of one moment stand. */
  readonly digest: string;
  /** Nobody stands on two pages, the pages follow one another in time, and all say the same size of the segment. */
  readonly isConsistent: boolean;
}

/**
 * Pages to read between two runs of so many pages. Then the runs begin so many requests apart that each page is read in every
 * phase of whatever comes and goes with every second or third request; else each run could find the same phase, and miss the same
 * member.
 */
export function pagesBetweenRuns(pages: number): number {
  let apart = pages;
  while (apart % 2 === 0 || apart % 3 === 0) apart += 1;
  return apart - pages;
}

/** Collects a run page by page. */
export function collectRun() {
  const facts: PageFacts[] = [];
  const digest = createHash("sha256");
  let seen = new Float64Array(1024);
  let count = 0;
  return {
    add(page: PageFacts, { members, totalCount, listContinues }: MemberPage): void {
      facts.push(page);
      const lines = members.map(({ servicePid, firstAddedAt }) => `${firstAddedAt} ${servicePid}`);
      digest.update(JSON.stringify([page.page, totalCount, listContinues, lines.toSorted()]));
      while (count + members.length > seen.length) seen = grown(seen);
      for (const { servicePid } of members) seen[count++] = numberOf(servicePid);
    },
    end(): PageRun {
      const sorted = seen.subarray(0, count).toSorted();
      const isTwice = sorted.some((value, i) => i > 0 && value === sorted[i - 1]);
      const isOrdered = facts.every((page, i) => i === 0 || follows(page, facts[i - 1]));
      const isSound = facts.every((page) => page.isSound);
      const isSteady = facts.every((page) => page.totalCount === facts[0]?.totalCount);
      return {
        facts,
        digest: digest.digest("hex"),
        isConsistent: !isTwice && isOrdered && isSound && isSteady,
      };
    },
  };
}

function grown(numbers: Float64Array): Float64Array<ArrayBuffer> {
  const larger = new Float64Array(numbers.length * 2);
  larger.set(numbers);
  return larger;
}

/** 53 bits of a hash: two PIDs of one number only leave a removal unproven. */
function numberOf(text: string): number {
  let high = 0x811c9dc5;
  let low = 0x1b873593;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    high = Math.imul(high ^ code, 0x01000193);
    low = Math.imul(low ^ code, 0x85ebca6b);
    low ^= low >>> 13;
  }
  return (high & 0x1fffff) * 2 ** 32 + (low >>> 0);
}

function follows(page: PageFacts, before: PageFacts | undefined): boolean {
  if (!before || page.page !== before.page + 1) return false;
  if (page.newest === null || before.oldest === null) return page.size === 0;
  return microsOf(page.newest) <= microsOf(before.oldest);
}

/** The span that a run proves as a whole; null where it proves none. */
export function spanOfRun({ facts, isConsistent }: PageRun): ProvenSpan | null {
  const filled = facts.filter(({ size }) => size > 0);
  const [first, last] = [filled[0], filled.at(-1)];
  if (!isConsistent || !first || !last) return null;
  return {
    after: last.isLast ? null : last.oldest,
    before: first.page === 1 ? null : first.newest,
    seenAt: last.seenAt,
  };
}
