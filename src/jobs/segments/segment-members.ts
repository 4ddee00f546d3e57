import { memberCounts, openSweep } from "../../load/feeds/segment-sweep.ts";
import { pageCall } from "../../extract/segment-page.ts";
import type { FeedUpsert } from "../../load/feeds/feed-commit.ts";
import type { Cell } from "../../schemas/convert.ts";
import { DriftLog } from "../../schemas/drift.ts";
import { segmentEndpoints } from "../../schemas/segments.ts";
import { countText } from "../lookup/estimate.ts";
import { forEachSegment, type KnownSegment, segmentGone, segmentStreams } from "./feed-segments.ts";
import type { FeedContext, FeedJobType } from "../feed-type.ts";
import { NO_SEGMENT, type SegmentMembersJobConfig, segmentMembersSettings } from "./settings.ts";
import {
  type MemberCheckpoint,
  memberCursor,
  neverSwept,
  readMemberCheckpoint,
} from "./member-checkpoint.ts";
import { isSweepDue } from "./sweep-due.ts";
import { type AnsweredPage, createMemberSweep, type SweepResult } from "./sweep-members.ts";

const { name: endpoint } = segmentEndpoints.members;

/** Pages of members in one transaction. */
const PAGES_PER_COMMIT = 6;

/** Pages of a quiet check: new members of up to so many are known before everything is read. */
const QUIET_PAGES = 3;
/** Readings in a row of pages with people of one moment that bring nobody to light before the others are given up. */
const FRUITLESS_READINGS = 3;

type Context = FeedContext<SegmentMembersJobConfig>;

async function readPage(context: Context, id: string, page: number, drift: DriftLog): Promise<AnsweredPage> {
  const reply = await context.call(pageCall(id, page, drift));
  if (reply.kind === "refused") throw segmentGone(context.job.name, endpoint, id);
  context.count({ records_received: reply.value.members.length });
  return { page: reply.value, seenAt: reply.answeredAt };
}

/** What a quiet check or a sweep left behind. */
interface Synced extends SweepResult {
  readonly isSweep: boolean;
}

async function syncSegment(context: Context, segment: KnownSegment): Promise<void> {
  const { db, run, outage, log, job, request } = context;
  const stored = readMemberCheckpoint(context.checkpoints.get(segment.id)?.cursor ?? null);
  // What is known of who was no member stays known, though everything is read again.
  const before = request.fullRefresh ? { ...neverSwept, complete_at: stored.complete_at } : stored;
  const drift = new DriftLog(endpoint);
  const first = await readPage(context, segment.id, 1, drift);
  const { living } = await outage.outlast(() => memberCounts(db, segment.id));
  const handle = await outage.outlast(() =>
    openSweep(db, run, { segmentId: segment.id, completeAt: before.complete_at }),
  );
  const sweep = createMemberSweep({
    read: (page) => readPage(context, segment.id, page, drift),
    pagesPerCommit: PAGES_PER_COMMIT,
    add: (members, nextPage) =>
      context.commitWith({}, (books) => {
        const cursor = { ...before, unfinished: { next_page: nextPage ?? 1 } };
        const checkpoints = nextPage === null ? [] : [{ stream: segment.id, cursor }];
        return handle.add({ ...books, drift: [], upserts: [], checkpoints }, members);
      }),
    settle: (spans) =>
      context.commitWith({}, (books) =>
        handle.settle({ ...books, drift: [], upserts: [], checkpoints: [] }, spans),
      ),
  });
  const synced = await readSegment(context, { before, first, living, segment, sweep, drift }).catch(
    async (error: unknown) => {
      // Other segments may follow; what can't be dropped now is dropped by the next sweep.
      await handle.close().catch(() => {});
      throw error;
    },
  );
  await outage.outlast(() => handle.close());
  const known = await outage.outlast(() => memberCounts(db, segment.id));
  const isComplete = hasSeenAll(synced, known.living);
  await context.commit({
    drift: drift.entries(),
    upserts: booksOf(run.runId, segment, synced, { living: known.living, isComplete }),
    checkpoints: [{ stream: segment.id, cursor: checkpointAfter({ before, first }, synced, isComplete) }],
  });
  const { added, removed, pending, totalCount, isSweep } = synced;
  log.info(
    { job: job.name, segment_id: segment.id, size: totalCount, added, removed, pending, sweep: isSweep },
    "segment_synced",
  );
  if (pending > 0) {
    const who = countText(pending, "member");
    context.progress.note(job.name, `${who} of ${segment.id} not seen, and not proven to be gone yet`);
  }
  const missing = missingOf(synced, known.living);
  if (missing > 0) {
    log.warn({ job: job.name, segment_id: segment.id, size: totalCount, missing }, "segment_members_missing");
    context.progress.note(
      job.name,
      `${countText(missing, "member")} of the ${totalCount} of ${segment.id} on no page; the next run reads all of them again`,
    );
  }
}

interface Begun {
  readonly before: MemberCheckpoint;
  readonly first: AnsweredPage;
  readonly sweep: ReturnType<typeof createMemberSweep>;
}

/** Whether all pages have to be read whatever the first ones say. */
function mustSweep({ job, request }: Context, { before, first }: Begun): boolean {
  const { totalCount, members, listContinues } = first.page;
  const pages = listContinues && members.length > 0 ? Math.ceil(totalCount / members.length) : 1;
  return request.fullRefresh || isSweepDue(job, before, { pages, atMs: Date.parse(first.seenAt) });
}

interface Reading extends Begun {
  readonly living: number;
  readonly segment: KnownSegment;
  readonly drift: DriftLog;
}

async function readSegment(context: Context, reading: Reading): Promise<Synced> {
  return (await checkQuietly(context, reading)) ?? (await sweepAll(context, reading));
}

/** Compares the size with what is known and the newest pages; null where that doesn't agree, or a sweep is due anyway. */
async function checkQuietly(context: Context, begun: Reading): Promise<Synced | null> {
  const { before, sweep, segment, drift } = begun;
  let answer = begun.first;
  let page = 1;
  let { living } = begun;
  let added = 0;
  const isDue = mustSweep(context, begun);
  for (;;) {
    const { added: ofPage } = await sweep.begin(answer, page);
    living += ofPage;
    added += ofPage;
    if (isDue || living + before.suppressed === answer.page.totalCount) break;
    // Somebody known stands on the page: all new ones have been seen.
    if (ofPage < answer.page.members.length || page >= QUIET_PAGES || !answer.page.listContinues) break;
    page += 1;
    answer = await readPage(context, segment.id, page, drift);
  }
  const { totalCount } = answer.page;
  if (isDue || living + before.suppressed !== totalCount) return null;
  return {
    isSweep: false,
    totalCount,
    added,
    removed: 0,
    pending: 0,
    suppressed: before.suppressed,
    isSteady: true,
    seenAt: answer.seenAt,
  };
}

/** Reads all pages; where people are missing though nobody came or went, those again on which they may stand by now. */
async function sweepAll(context: Context, { before, sweep, segment }: Reading): Promise<Synced> {
  await sweep.readAll(before.unfinished?.next_page ?? 1);
  for (let fruitless = 0; ; ) {
    const synced = { ...(await sweep.settle()), isSweep: true };
    const { living } = await context.outage.outlast(() => memberCounts(context.db, segment.id));
    if (fruitless === FRUITLESS_READINGS || missingOf(synced, living) === 0) return synced;
    const found = await sweep.readTies();
    if (found === null) return synced;
    fruitless = found > 0 ? 0 : fruitless + 1;
  }
}

/** People whom no page has shown, though all of them said the same size. */
function missingOf({ isSweep, isSteady, suppressed, totalCount }: Synced, living: number): number {
  return isSweep && isSteady ? Math.max(totalCount - living - suppressed, 0) : 0;
}

/**
 * Whether all pages were read and showed everybody: who leaves meanwhile lets others slip to a page that was read already. Then
 * the size changes, or it isn't that of those who are known now.
 */
function hasSeenAll({ isSweep, isSteady, pending, suppressed, totalCount }: Synced, living: number): boolean {
  return isSweep && isSteady && pending === 0 && living + suppressed === totalCount;
}

function checkpointAfter(
  { before, first }: Pick<Begun, "before" | "first">,
  { isSweep, seenAt, suppressed }: Synced,
  isComplete: boolean,
): MemberCheckpoint {
  if (!isSweep) return before;
  const completeAt = isComplete ? first.seenAt : before.complete_at;
  return { ...neverSwept, swept_at: seenAt, complete_at: completeAt, suppressed };
}

/** The rows about the reading itself. */
function booksOf(
  runId: string,
  { id, name }: KnownSegment,
  synced: Synced,
  { living, isComplete }: { readonly living: number; readonly isComplete: boolean },
): readonly FeedUpsert[] {
  const { totalCount, seenAt, pending } = synced;
  const segment: [string, Cell][] = [
    ["segment_id", id],
    ["current_size", String(totalCount)],
    ["last_checked_at", seenAt],
    ...(name === null ? [] : [["name", name] satisfies [string, Cell]]),
    ...(isComplete ? [["last_complete_sync_at", seenAt] satisfies [string, Cell]] : []),
  ];
  const counts = [totalCount, living, synced.added, synced.removed, pending].map(String);
  return [
    {
      table: "segment",
      columns: segment.map(([column]) => column),
      rows: [segment.map(([, cell]) => cell)],
      isBookkeeping: true,
    },
    {
      table: "segment_sync",
      columns: [
        "segment_id",
        "run_id",
        "observed_at",
        "current_size",
        "known_members",
        "added",
        "removed",
        "removals_pending",
      ],
      rows: [[id, runId, seenAt, ...counts]],
      isBookkeeping: true,
    },
  ];
}

/** Keeps the members of segments: `GET /v2/segments/members`. */
export const segmentMembersJob: FeedJobType<SegmentMembersJobConfig> = {
  type: "segment_members",
  settings: segmentMembersSettings,
  isBilled: false,
  endpoints: [segmentEndpoints.members],
  writes: ["segment", "segment_member", "segment_membership_history", "segment_sync"],
  checkpoints: {
    meaning:
      "swept_at: when all pages were last read; complete_at: begin of the last reading that showed everybody and left nothing " +
      "unproven; unfinished: the page with which an interrupted one goes on. Without a checkpoint all pages are read",
    cursor: memberCursor,
    example: { swept_at: "2026-11-21T04:00:00Z" },
    streams: segmentStreams,
    noStream: () => NO_SEGMENT,
  },
  plannedCalls: ({ segments }) => ({
    least: segments.length,
    more: "one for each further page of 5,000 members",
  }),
  run: (context) => forEachSegment(context, context.job.segments, (segment) => syncSegment(context, segment)),
};
