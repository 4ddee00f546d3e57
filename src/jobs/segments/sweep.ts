import { StopJobError } from "../../errors.ts";
import type { ProvenSpan } from "../../load/feeds/members.ts";
import type { Cell } from "../../schemas/convert.ts";
import {
  type AnsweredPage,
  factsOf,
  keysOf,
  type PageFacts,
  rangesAround,
  spanOf,
  spanOfReadings,
} from "./proof.ts";

/** Items on a full page of members (section 8). */
const PAGE_MEMBERS = 5000;
/** Most pages beyond `total_count`, which may lag behind the list: a service that ignores `page` repeats one without end. */
const MAX_LATE_PAGES = 100;

/** Reads one page. */
export type ReadPage = (page: number) => Promise<AnsweredPage>;

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

/** Number of items on a full page: a page with a successor is full. */
function pageSizeAfter({ listContinues, members }: AnsweredPage, before: number): number {
  return listContinues && members.length > 0 ? members.length : before;
}

/** Complete reading of a segment with the absences it proves. */
interface MemberSweep {
  /** Reads all pages. @param first page 1, if already read */
  pages(first?: AnsweredPage): AsyncGenerator<AnsweredPage>;
  /** Reads the pages around members with these times again. */
  reread(moments: readonly Cell[]): AsyncGenerator<AnsweredPage>;
  /** Spans of `first_added_at` in which absence from the sweep proves a removal. */
  spans(): readonly ProvenSpan[];
  /** True if all pages reported the same size. */
  isSteady(): boolean;
  /** Latest response; null before the first. */
  latest(): AnsweredPage | null;
}

/** Starts a sweep. Stores no members except hashes of pages that are read again. */
export function createSweep(read: ReadPage, fullPage = PAGE_MEMBERS): MemberSweep {
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
    async *pages(first) {
      for await (const answer of readPages(read, first, fullPage)) {
        pageSize = pageSizeAfter(answer, pageSize);
        facts.push(note(answer));
        yield answer;
      }
    },
    async *reread(moments) {
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
    spans: () => [...facts.flatMap((page) => spanOf(page) ?? []), ...proven],
    isSteady: () => sizes.size === 1,
    latest: () => latest,
  };
}

function notAdvancing(page: number): StopJobError {
  return new StopJobError(
    "page_not_advancing",
    `GET /v2/segments/members: page ${page} is beyond its own total_count, but announces more pages. The job stopped reading; no member ` +
      "was marked as removed.",
  );
}
