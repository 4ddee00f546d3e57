import { hash } from "node:crypto";
import { StopJobError } from "../../errors.ts";
import type { MemberPage } from "../../extract/pages.ts";
import type { ProvenSpan } from "../../load/feeds/members.ts";
import { type Cell, microsOf } from "../../schemas/convert.ts";

/** A page of members with the time of its response. */
export interface AnsweredPage extends MemberPage {
  /** Page number, from 1. */
  readonly page: number;
  /** Time at which the service completed the response. */
  readonly seenAt: string;
}

export type ReadPage = (page: number) => Promise<AnsweredPage>;

/** Items on a full page of members (section 8). */
const PAGE_MEMBERS = 5000;
/** Most pages beyond `total_count`, which may lag behind the list: a service that ignores `page` repeats one without end. */
const MAX_LATE_PAGES = 100;

/** Starts a complete reading of a segment. Stores no members except hashes of pages that are read again. */
export function createSweep(read: ReadPage, fullPage = PAGE_MEMBERS) {
  const facts: PageFacts[] = [];
  const proven: ProvenSpan[] = [];
  const sizes = new Set<number>();
  let pageSize = fullPage;
  let latest: AnsweredPage | null = null;

  function note(answer: AnsweredPage): PageFacts {
    latest = answer;
    sizes.add(answer.totalCount);
    return factsOf(answer, pageSize);
  }

  return {
    /** Reads all pages. @param first page 1, if already read */
    async *pages(first?: AnsweredPage): AsyncGenerator<AnsweredPage> {
      for await (const answer of readPages(read, first, fullPage)) {
        pageSize = pageSizeAfter(answer, pageSize);
        facts.push(note(answer));
        yield answer;
      }
    },
    /** Reads the pages around members with these times again. */
    async *reread(moments: readonly Cell[]): AsyncGenerator<AnsweredPage> {
      for (const range of rangesAround(moments, facts)) {
        const before = facts.filter(({ page }) => page >= range.from && page <= range.to);
        const again: PageFacts[] = [];
        const keys: Float64Array[] = [];
        for await (const answer of pagesFrom(read, read(range.from), ({ page }) => page === range.to)) {
          const page = note(answer);
          keys.push(keysOf(answer));
          yield answer;
          if (page.digest !== before[again.push(page) - 1]?.digest) break;
        }
        const span = spanOfReadings(before, again, keys);
        if (span) proven.push(span);
      }
    },
    /** Spans of `first_added_at` in which absence from the sweep proves a removal. */
    spans: (): readonly ProvenSpan[] => [...facts.flatMap((page) => spanOf(page) ?? []), ...proven],
    /** True if all pages reported the same size. */
    isSteady: () => sizes.size === 1,
    /** Latest response; null before the first. */
    latest: (): AnsweredPage | null => latest,
  };
}

/** Yields all pages of a segment. @param first page 1, if already read */
export function readPages(
  read: ReadPage,
  first?: AnsweredPage,
  fullPage = PAGE_MEMBERS,
): AsyncGenerator<AnsweredPage> {
  let pageSize = fullPage;
  return pagesFrom(read, first ? Promise.resolve(first) : read(1), (answer) => {
    const { page, members, listContinues, totalCount } = answer;
    pageSize = pageSizeAfter(answer, pageSize);
    const late = page - totalCount / pageSize;
    if (late > (listContinues ? 2 : MAX_LATE_PAGES)) throw notAdvancing(page);
    // A full page never counts as the last one, even if it says so.
    return members.length === 0 || (!listContinues && members.length < pageSize);
  });
}

/** Yields pages in order, reading the next one while the caller handles the current one. */
async function* pagesFrom(
  read: ReadPage,
  first: Promise<AnsweredPage>,
  isEnd: (answer: AnsweredPage) => boolean,
): AsyncGenerator<AnsweredPage> {
  for (let next: Promise<AnsweredPage> | null = first; next !== null; ) {
    const answer: AnsweredPage = await next;
    next = isEnd(answer) ? null : read(answer.page + 1);
    // Awaited in the next iteration, unless the caller stops before.
    next?.catch(() => {});
    yield answer;
  }
}

/** Number of items on a full page: a page with a successor is full. */
function pageSizeAfter({ listContinues, members }: AnsweredPage, before: number): number {
  return listContinues && members.length > 0 ? members.length : before;
}

function notAdvancing(page: number): StopJobError {
  return new StopJobError(
    "page_not_advancing",
    `GET /v2/segments/members: page ${page} is beyond its own total_count, but announces more pages. The job stopped reading; no member ` +
      "was marked as removed.",
  );
}

/** Properties of a page that can prove absences, without its members. */
interface PageFacts {
  readonly page: number;
  readonly size: number;
  /** `first_added_at` of the first and the last item; null for an empty page. */
  readonly newest: Cell;
  readonly oldest: Cell;
  readonly totalCount: number;
  /** True if no member is older than the items of this page. */
  readonly isLast: boolean;
  readonly isSound: boolean;
  /** Equal for responses with the same members and size, in any order of ties. */
  readonly digest: string;
  readonly seenAt: string;
}

/** @param pageSize number of items on a full page */
function factsOf(answer: AnsweredPage, pageSize: number): PageFacts {
  const { page, members, totalCount, listContinues, isSound, seenAt } = answer;
  const pids = members.map(({ servicePid }) => servicePid).toSorted();
  return {
    page,
    size: members.length,
    newest: members[0]?.firstAddedAt ?? null,
    oldest: members.at(-1)?.firstAddedAt ?? null,
    totalCount,
    // A full page may have a successor: the service counts and lists members separately.
    isLast:
      !listContinues && members.length < pageSize && (page - 1) * pageSize + members.length === totalCount,
    isSound,
    digest: hash("sha256", JSON.stringify([totalCount, listContinues, pids])),
    seenAt,
  };
}

/**
 * Span of `first_added_at` that one response covers completely. Both ends are exclusive: members with the same time may be
 * on the neighboring pages.
 */
function spanOf(page: PageFacts): ProvenSpan | null {
  return page.isSound ? spanBetween(page, page, page.seenAt) : null;
}

/** Null if an end is neither a member nor the end of the list. */
function spanBetween(first: PageFacts, last: PageFacts, seenAt: string): ProvenSpan | null {
  if (!last.isLast && last.oldest === null) return null;
  if (first.page > 1 && first.newest === null) return null;
  return {
    after: last.isLast ? null : last.oldest,
    before: first.page === 1 ? null : first.newest,
    seenAt,
  };
}

/** Consecutive pages, both ends inclusive. */
interface PageRange {
  readonly from: number;
  readonly to: number;
}

/**
 * Page ranges that enclose members with the given times, if no single page does. Merges overlapping ranges.
 * @param pages all pages of a reading, in order
 */
function rangesAround(moments: readonly Cell[], pages: readonly PageFacts[]): readonly PageRange[] {
  const last = pages.at(-1)?.page ?? 1;
  const edges = pages.flatMap(({ page, newest, oldest }) =>
    newest === null || oldest === null ? [] : [{ page, newest: microsOf(newest), oldest: microsOf(oldest) }],
  );
  const ranges = moments.map((moment): PageRange => {
    if (moment === null) return { from: 1, to: last };
    const at = microsOf(moment);
    const newer = edges.findLast(({ newest }) => newest > at)?.page ?? 1;
    const older = edges.find(({ oldest }) => oldest < at)?.page ?? last;
    return { from: Math.min(newer, older), to: Math.max(newer, older) };
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

/**
 * Span that two identical readings of the same pages cover; null if they differ, or show a member twice.
 * @param keys hashes of the members of the second reading, by page
 */
function spanOfReadings(
  first: readonly PageFacts[],
  second: readonly PageFacts[],
  keys: readonly Float64Array[],
): ProvenSpan | null {
  const [begin, end] = [second[0], second.at(-1)];
  if (!begin || !end || first.length !== second.length) return null;
  const isSame = second.every(
    ({ page, digest, totalCount, isSound }, i) =>
      isSound && page === first[i]?.page && digest === first[i].digest && totalCount === begin.totalCount,
  );
  if (!isSame || hasTwice(keys)) return null;
  // The end of the first reading is between two responses that show the absence.
  return spanBetween(begin, end, first.at(-1)?.seenAt ?? end.seenAt);
}

/** 48-bit hashes of the members of a page. In a collision, a removal stays pending. */
function keysOf({ members }: MemberPage): Float64Array {
  return Float64Array.from(members, ({ servicePid }) => hash("sha1", servicePid, "buffer").readUIntBE(0, 6));
}

function hasTwice(keys: readonly Float64Array[]): boolean {
  const all = new Float64Array(keys.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const ofPage of keys) {
    all.set(ofPage, at);
    at += ofPage.length;
  }
  all.sort();
  return all.some((key, i) => i > 0 && key === all[i - 1]);
}
