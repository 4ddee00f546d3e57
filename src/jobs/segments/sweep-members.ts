import { StopJobError } from "../../errors.ts";
import type { MemberPage } from "../../extract/segment-page.ts";
import type { AddedMembers, ProvenSpan, SeenMember, SettledMembers } from "../../load/feeds/segments.ts";
import {
  collectRun,
  factsOf,
  type PageFacts,
  type PageRange,
  type PageRun,
  pagesBetweenRuns,
  rangesAround,
  rangesOfTies,
  spanOf,
  spanOfRun,
} from "./member-proof.ts";

/** A page as it was answered. */
export interface AnsweredPage {
  readonly page: MemberPage;
  /** When the service completed the answer. */
  readonly seenAt: string;
}

/** What a sweep works with. */
export interface SweepParts {
  read(page: number): Promise<AnsweredPage>;
  /** Keeps members that were seen; `nextPage` is where to go on after a crash, null where that isn't known. */
  add(members: readonly SeenMember[], nextPage: number | null): Promise<AddedMembers>;
  settle(spans: readonly ProvenSpan[]): Promise<SettledMembers>;
  readonly pagesPerCommit: number;
}

/** What a sweep found. */
export interface SweepResult {
  readonly totalCount: number;
  /** Every page said the same size; else somebody may have slipped from one that wasn't read yet to one that was. */
  readonly isSteady: boolean;
  readonly added: number;
  readonly removed: number;
  readonly pending: number;
  readonly suppressed: number;
  readonly seenAt: string;
}

/** Times that pages are read until they were the same so often in a row. */
const ALIKE_RUNS = 3;
/** Long runs can't come back to the same state by chance. */
const ALIKE_LONG_RUNS = 2;
const LONG_RUN_PAGES = 8;
/** Further times that pages are read which keep changing, before removals stay pending. */
const SPARE_RUNS = 2;

/** Reads all pages of a segment, each at least once, and records who came and who is proven gone. */
export function createMemberSweep(parts: SweepParts) {
  const facts = new Map<number, PageFacts>();
  const spans: ProvenSpan[] = [];
  let pageSize: number | null = null;
  let waiting: SeenMember[] = [];
  let waitingPages = 0;
  let isConfirming = false;
  let flushing: Promise<void> = Promise.resolve();
  const sums = { added: 0, suppressed: 0, removed: 0 };
  let latest: AnsweredPage | null = null;
  let isSteady = true;

  async function keep(members: readonly SeenMember[], nextPage: number | null): Promise<void> {
    const { added, suppressed } = await parts.add(members, nextPage);
    sums.added += added;
    // Who is read again was counted before.
    if (!isConfirming) sums.suppressed += suppressed;
  }

  /** Begins to commit what was taken; further pages are read meanwhile, but only one commit is under way. */
  async function beginFlush(nextPage: number | null): Promise<void> {
    await flushing;
    if (waiting.length === 0) return;
    const members = waiting;
    waiting = [];
    waitingPages = 0;
    flushing = keep(members, nextPage);
    // Its failure is told by whoever waits for it next.
    flushing.catch(() => {});
  }

  async function flush(nextPage: number | null): Promise<void> {
    await beginFlush(nextPage);
    await flushing;
  }

  /** Takes note of an answer. */
  function take(number: number, answer: AnsweredPage): PageFacts {
    const { page, seenAt } = answer;
    if (latest && latest.page.totalCount !== page.totalCount) isSteady = false;
    latest = answer;
    if (page.listContinues && page.members.length > 0) pageSize ??= page.members.length;
    const fact = factsOf(number, page, seenAt, pageSize);
    facts.set(number, fact);
    const span = spanOf(fact);
    if (span) spans.push(span);
    for (const { servicePid, firstAddedAt, extra } of page.members) {
      waiting.push({ servicePid, firstAddedAt, seenAt, extra });
    }
    waitingPages += 1;
    return fact;
  }

  /** Reads pages from one on, up to another or the last one. */
  async function readOn(from: number, to: number): Promise<void> {
    let next: Promise<AnsweredPage> | null = from <= to ? parts.read(from) : null;
    for (let number = from; next !== null; number++) {
      const answer = await received(next, number);
      if (isBeyondEnd(number, answer.page)) {
        // The commit under way comes to its end before anything else is begun.
        await flush(null).catch(() => {});
        throw notAdvancing(number);
      }
      const isEnd = !answer.page.listContinues || answer.page.members.length === 0 || number >= to;
      next = isEnd ? null : parts.read(number + 1);
      // It is awaited below; until then its failure is nobody's.
      next?.catch(() => {});
      take(number, answer);
      if (isEnd) await flush(null);
      else if (waitingPages >= parts.pagesPerCommit) await beginFlush(number + 1);
    }
  }

  /** Waits for a page; where something ends the reading, keeps what was read before. */
  async function received(page: Promise<AnsweredPage>, number: number): Promise<AnsweredPage> {
    try {
      return await page;
    } catch (error) {
      try {
        await flush(number);
      } catch {
        // What hinders this as well is the same thing, or comes after it.
      }
      throw error;
    }
  }

  /** Whether a page claims to be followed by others where its own total leaves none. */
  function isBeyondEnd(number: number, { listContinues, totalCount }: MemberPage): boolean {
    return listContinues && pageSize !== null && (number - 2) * pageSize > totalCount;
  }

  /** Reads a page once more. */
  async function readAgain(number: number) {
    const answer = await parts.read(number);
    const fact = take(number, answer);
    if (waitingPages >= parts.pagesPerCommit) await flush(null);
    return { fact, page: answer.page };
  }

  /** Reads a range once more. */
  async function readRun({ from, to }: PageRange): Promise<PageRun> {
    const run = collectRun();
    for (let number = from; number <= to; number++) {
      const { fact, page } = await readAgain(number);
      run.add(fact, page);
      if (!page.listContinues || page.members.length === 0) break;
    }
    return run.end();
  }

  /** Reads pages again and again until they stay the same; null where they don't. */
  async function confirm(range: PageRange): Promise<ProvenSpan | null> {
    const wanted = range.to - range.from + 1 > LONG_RUN_PAGES ? ALIKE_LONG_RUNS : ALIKE_RUNS;
    let alike = 0;
    let digest = "";
    let between = 0;
    for (let reading = 0; reading < wanted + SPARE_RUNS; reading++) {
      for (; between > 0; between--) await readAgain(range.from);
      const run = await readRun(range);
      alike = run.digest === digest ? alike + 1 : 1;
      digest = run.digest;
      if (alike >= wanted) return spanOfRun(run);
      between = pagesBetweenRuns(run.facts.length);
    }
    return null;
  }

  return {
    /** Takes over a page that was read already; tells how many people of it were no known members. */
    async begin(answer: AnsweredPage, number: number): Promise<{ readonly added: number }> {
      const before = sums.added;
      take(number, answer);
      await flush(null);
      return { added: sums.added - before };
    },
    /**
     * Reads all pages that were not read yet: from `start` to the last one, then those before it; so who goes on after a crash
     * has read every page by the end, as if it had begun with the first.
     */
    async readAll(start: number): Promise<void> {
      const begun = Math.max(0, ...facts.keys());
      const isAllRead = [...facts.values()].some(({ isLast }) => isLast);
      if (isAllRead) return;
      if (start > begun + 1) await readOn(start, Number.POSITIVE_INFINITY);
      await readOn(begun + 1, start > begun + 1 ? start - 1 : Number.POSITIVE_INFINITY);
    },
    /**
     * Reads once more the pages over whose edges people of one moment stand, since whoever was on none of them may be now;
     * tells how many people came to light, null where there are no such pages.
     */
    async readTies(): Promise<number | null> {
      const ranges = rangesOfTies([...facts.values()].toSorted((a, b) => a.page - b.page));
      if (ranges.length === 0) return null;
      const before = sums.added;
      isConfirming = true;
      for (const { from, to } of ranges) {
        for (let number = from; number <= to; number++) await readAgain(number);
      }
      await flush(null);
      return sums.added - before;
    },
    /** Records removals; reads pages again whose edges leave some unproven. */
    async settle(): Promise<SweepResult> {
      let settled = await parts.settle(spans);
      sums.removed += settled.removed;
      if (settled.pending > 0) {
        const pages = [...facts.values()].toSorted((a, b) => a.page - b.page);
        const confirmed: ProvenSpan[] = [];
        isConfirming = true;
        for (const range of rangesAround(settled.pendingAt, pages)) {
          const span = await confirm(range);
          if (span) confirmed.push(span);
        }
        await flush(null);
        settled = await parts.settle([...spans, ...confirmed]);
        sums.removed += settled.removed;
      }
      return {
        ...sums,
        pending: settled.pending,
        totalCount: latest?.page.totalCount ?? 0,
        isSteady,
        seenAt: latest?.seenAt ?? "",
      };
    },
  };
}

function notAdvancing(page: number): StopJobError {
  return new StopJobError(
    "page_not_advancing",
    `GET /v2/segments/members: page ${page} says that others follow, though its total_count leaves none. Reading on would ` +
      "never end; nobody was marked as removed.",
  );
}
