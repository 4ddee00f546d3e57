import { hash } from "node:crypto";
import { StopJobError } from "../../errors.ts";
import type { MemberPage } from "../../extract/pages.ts";
import type { ProvenSpan } from "../../load/feeds/members.ts";
import { type Cell, microsOf } from "../../schemas/convert.ts";

export interface AnsweredPage extends MemberPage {
  /** Page number, from 1. */
  readonly page: number;
  /** Time at which the service completed the response. */
  readonly seenAt: string;
}

export type ReadPage = (page: number) => Promise<AnsweredPage>;

/** Time after which a segment is read again completely, even if its size has not changed. */
export const FULL_SWEEP_EVERY_MS = 7 * 86_400_000;

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
    /** Reads the pages again that enclose all members with these times. */
    async *reread(moments: readonly Cell[]): AsyncGenerator<AnsweredPage> {
      if (moments.length === 0) return;
      const { from, to } = rangeAround(moments, facts);
      const before = facts.filter(({ page }) => page >= from && page <= to);
      const again: PageFacts[] = [];
      const keys: number[] = [];
      for await (const answer of pagesFrom(read, read(from), ({ page }) => page === to)) {
        const page = note(answer);
        again.push(page);
        for (const { servicePid } of answer.members) keys.push(keyOf(servicePid));
        yield answer;
        if (page.digest !== before[again.length - 1]?.digest) return;
      }
      if (!hasTwice(keys)) proven.push(...spanOfReadings(before, again));
    },
    /** Spans of `first_added_at` in which absence from the sweep proves a removal. */
    spans: (): readonly ProvenSpan[] => [
      ...facts.flatMap((page) => (page.isSound ? spanBetween(page, page, page.seenAt) : [])),
      ...proven,
    ],
    /** True if all pages reported the same size. */
    isSteady: () => sizes.size === 1,
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
    if (page - totalCount / pageSize > (listContinues ? 2 : MAX_LATE_PAGES)) {
      throw new StopJobError(
        "page_not_advancing",
        `GET /v2/segments/members: page ${page} is past its own total_count, but says that more pages follow. The job stopped reading; no ` +
          "member was marked as removed.",
      );
    }
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

/** Properties of a page that can prove absences, without its members. */
interface PageFacts {
  readonly page: number;
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
  // A full page may have a successor: the service counts and lists members separately.
  const isEnd = !listContinues && members.length < pageSize;
  return {
    page,
    newest: members[0]?.firstAddedAt ?? null,
    oldest: members.at(-1)?.firstAddedAt ?? null,
    totalCount,
    isLast: isEnd && (page - 1) * pageSize + members.length === totalCount,
    isSound,
    digest: hash("sha256", JSON.stringify([totalCount, listContinues, pids])),
    seenAt,
  };
}

/**
 * Span of `first_added_at` that consecutive pages cover completely; none if an end is neither a member nor the end of the list. Both
 * ends are exclusive: members with the same time may be on the neighboring pages.
 */
function spanBetween(first: PageFacts, last: PageFacts, seenAt: string): readonly ProvenSpan[] {
  if (!last.isLast && last.oldest === null) return [];
  if (first.page > 1 && first.newest === null) return [];
  const after = last.isLast ? null : last.oldest;
  return [{ after, before: first.page === 1 ? null : first.newest, seenAt }];
}

/** Page numbers, both inclusive, between which all members with these times must be listed. @param pages all pages in order */
function rangeAround(moments: readonly Cell[], pages: readonly PageFacts[]) {
  const [first, last] = [1, pages.at(-1)?.page ?? 1];
  // The position of a member without a time is unknown.
  if (moments.includes(null)) return { from: first, to: last };
  const times = moments.flatMap((moment) => (moment === null ? [] : [microsOf(moment)]));
  const [oldestUs, newestUs] = [Math.min(...times), Math.max(...times)];
  const newer = pages.findLast(({ newest }) => newest !== null && microsOf(newest) > newestUs)?.page ?? first;
  const older = pages.find(({ oldest }) => oldest !== null && microsOf(oldest) < oldestUs)?.page ?? last;
  return { from: Math.min(newer, older), to: Math.max(newer, older) };
}

/** Span that two identical readings of the same pages cover; none if they differ. */
function spanOfReadings(first: readonly PageFacts[], second: readonly PageFacts[]): readonly ProvenSpan[] {
  const [begin, end] = [second[0], second.at(-1)];
  if (!begin || !end || first.length !== second.length) return [];
  const isSame = second.every(
    ({ page, digest, totalCount, isSound }, i) =>
      isSound && page === first[i]?.page && digest === first[i].digest && totalCount === begin.totalCount,
  );
  // The end of the first reading is between two responses that show the absence.
  return isSame ? spanBetween(begin, end, first.at(-1)?.seenAt ?? end.seenAt) : [];
}

/** 48-bit hash of a PID. In a collision, a removal stays pending. */
function keyOf(servicePid: string): number {
  return hash("sha1", servicePid, "buffer").readUIntBE(0, 6);
}

/** True if a member is on two pages, or twice on one. */
function hasTwice(keys: readonly number[]): boolean {
  const all = Float64Array.from(keys).toSorted();
  return all.some((key, i) => i > 0 && key === all[i - 1]);
}
