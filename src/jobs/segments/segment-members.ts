import { pageCall } from "../../extract/pages.ts";
import {
  type AddedMembers,
  addMembers,
  clearListed,
  countMembers,
  type ProvenSpan,
  type RemovedMembers,
  removeMembers,
} from "../../load/feeds/members.ts";
import type { Upsert } from "../../load/write/upsert.ts";
import { type Cell, DriftLog } from "../../schemas/convert.ts";
import { segmentEndpoints } from "../../schemas/segments.ts";
import type { FeedContext, FeedJobType } from "../feed.ts";
import { countText } from "../../figures.ts";
import {
  forEachSegment,
  isSweepDue,
  type KnownSegment,
  type MemberCheckpoint,
  memberCursor,
  neverSwept,
  NO_SEGMENT,
  readMemberCheckpoint,
  segmentGone,
  type SegmentMembersJobConfig,
  segmentMembersSettings,
  segmentStreams,
} from "./segments.ts";
import { type AnsweredPage, createSweep, type ReadPage } from "./sweep.ts";

const { name: endpoint } = segmentEndpoints.members;

/** Maximum pages of a quiet check; more new members require a sweep. */
const QUIET_PAGES = 3;

type Context = FeedContext<SegmentMembersJobConfig>;

/** Result of a quiet check or a sweep. */
interface Synced {
  readonly isSweep: boolean;
  readonly totalCount: number;
  /** True if all pages reported the same size. */
  readonly isSteady: boolean;
  readonly removed: number;
  readonly pending: number;
  readonly suppressed: number;
  /** Time of the latest response. */
  readonly seenAt: string;
}

interface Reading {
  readonly segment: KnownSegment;
  readonly read: ReadPage;
  readonly first: AnsweredPage;
  readonly before: MemberCheckpoint;
  /** Members before this run. */
  readonly living: number;
  /** Number of people who were not known as members. */
  readonly totals: { added: number };
}

async function syncSegment(context: Context, segment: KnownSegment): Promise<void> {
  const { db, run, retryWhileDown, log, job, request, progress } = context;
  const drift = new DriftLog(endpoint);
  const read: ReadPage = async (page) => {
    const call = pageCall(segment.id, page);
    const reply = await context.call({ ...call, read: (bytes) => call.read(bytes, drift) });
    if (reply.kind === "refused") throw segmentGone(job.name, endpoint, segment.id);
    context.count({ records_received: reply.value.members.length });
    return { ...reply.value, page, seenAt: reply.answeredAt };
  };
  const stored = context.checkpoints.get(segment.id)?.cursor ?? null;
  const before = request.fullRefresh ? neverSwept : readMemberCheckpoint(stored);
  const first = await read(1);
  await retryWhileDown(() => clearListed(db, run, segment.id));
  const { living } = await retryWhileDown(() => countMembers(db, segment.id));
  const reading = { segment, read, first, before, living, totals: { added: 0 } };
  const synced = (await checkQuietly(context, reading)) ?? (await sweepAll(context, reading));
  const known = await retryWhileDown(() => countMembers(db, segment.id));
  const isComplete = isCompleteSweep(synced, known.living);
  await context.commit({
    drift: drift.entries(),
    upserts: rowsAbout(run.runId, reading, synced, { living: known.living, isComplete }),
    checkpoints: synced.isSweep
      ? [{ stream: segment.id, cursor: { swept_at: synced.seenAt, suppressed: synced.suppressed } }]
      : [],
  });
  await retryWhileDown(() => clearListed(db, run, segment.id));
  const { removed, pending, totalCount, isSweep } = synced;
  const { added } = reading.totals;
  log.info(
    { job: job.name, segment_id: segment.id, size: totalCount, added, removed, pending, sweep: isSweep },
    "segment_synced",
  );
  if (pending > 0) {
    const subject = countText(pending, "member");
    progress.note(job.name, `${subject} of ${segment.id} not listed; removal not confirmed yet`);
  }
  const missing = missingOf(synced, known.living);
  if (missing > 0) {
    log.warn({ job: job.name, segment_id: segment.id, size: totalCount, missing }, "segment_members_missing");
    progress.note(
      job.name,
      `${countText(missing, "member")} of the ${totalCount} of ${segment.id} not listed on any page; the next run reads all pages again`,
    );
  }
}

async function store(
  context: Context,
  { segment, totals }: Reading,
  { members, seenAt }: AnsweredPage,
  isListed: boolean,
): Promise<AddedMembers> {
  const rows = { segmentId: segment.id, members: members.map((member) => ({ ...member, seenAt })), isListed };
  const { also } = await context.commit({ also: (writing) => addMembers(writing, rows) });
  const stored = also ?? { added: 0, suppressed: 0 };
  totals.added += stored.added;
  return stored;
}

/** Records the removals proven by spans. */
async function removeProven(
  context: Context,
  segmentId: string,
  spans: readonly ProvenSpan[],
): Promise<RemovedMembers> {
  const { also } = await context.commit({ also: (writing) => removeMembers(writing, segmentId, spans) });
  return also ?? { removed: 0, pending: 0, pendingAt: [] };
}

/** Compares the reported size with the known members and the newest pages. Null if a sweep is due or the sizes differ. */
async function checkQuietly(context: Context, reading: Reading): Promise<Synced | null> {
  const { read, first, before, living, totals } = reading;
  const { members, totalCount, listContinues } = first;
  const pages = listContinues && members.length > 0 ? Math.ceil(totalCount / members.length) : 1;
  const atMs = Date.parse(first.seenAt);
  if (context.request.fullRefresh || isSweepDue(before, { pages, atMs })) return null;
  for (let answer = first; ; answer = await read(answer.page + 1)) {
    const { added } = await store(context, reading, answer, false);
    const { suppressed } = before;
    if (living + totals.added + suppressed === answer.totalCount) {
      const { totalCount: size, seenAt } = answer;
      return { isSweep: false, totalCount: size, isSteady: true, removed: 0, pending: 0, suppressed, seenAt };
    }
    // A known member on the page means that all new ones have been listed.
    const hasMore = added === answer.members.length && answer.listContinues;
    if (!hasMore || answer.page >= QUIET_PAGES) return null;
  }
}

/** Reads all pages, stores their members and records proven removals. */
async function sweepAll(context: Context, reading: Reading): Promise<Synced> {
  const { segment, read, first, living } = reading;
  const sweep = createSweep(read);
  let [suppressed, removed, pending] = [0, 0, 0];
  for await (const page of sweep.pages(first)) {
    suppressed += (await store(context, reading, page, living > 0)).suppressed;
  }
  if (living > 0) {
    const proven = await removeProven(context, segment.id, sweep.spans());
    ({ removed, pending } = proven);
    for await (const page of sweep.reread(proven.pendingAt)) await store(context, reading, page, true);
  }
  if (pending > 0) {
    const proven = await removeProven(context, segment.id, sweep.spans());
    removed += proven.removed;
    ({ pending } = proven);
  }
  const { totalCount, seenAt } = sweep.latest() ?? first;
  return { isSweep: true, totalCount, isSteady: sweep.isSteady(), removed, pending, suppressed, seenAt };
}

/** Members not listed on any page although all pages reported the same size. */
function missingOf({ isSweep, isSteady, suppressed, totalCount }: Synced, living: number): number {
  return isSweep && isSteady ? Math.max(totalCount - living - suppressed, 0) : 0;
}

/** True if the sweep listed all members and no removal is pending. */
function isCompleteSweep(
  { isSweep, isSteady, pending, suppressed, totalCount }: Synced,
  living: number,
): boolean {
  return isSweep && isSteady && pending === 0 && living + suppressed === totalCount;
}

function rowsAbout(
  runId: string,
  { segment: { id, name }, first, totals }: Reading,
  synced: Synced,
  { living, isComplete }: { readonly living: number; readonly isComplete: boolean },
): readonly Upsert[] {
  const { totalCount, seenAt, removed, pending } = synced;
  const segment: Readonly<Record<string, Cell>> = {
    segment_id: id,
    current_size: String(totalCount),
    last_checked_at: seenAt,
    ...(name === null ? {} : { name }),
    // People added during the reading may be listed only by the next one.
    ...(isComplete ? { last_complete_sync_at: first.seenAt } : {}),
  };
  const sync: Readonly<Record<string, Cell>> = {
    segment_id: id,
    run_id: runId,
    observed_at: seenAt,
    current_size: String(totalCount),
    known_members: String(living),
    added: String(totals.added),
    removed: String(removed),
    removals_pending: String(pending),
  };
  return Object.entries({ segment, segment_sync: sync }).map(([table, row]) => ({
    table,
    columns: Object.keys(row),
    rows: [Object.values(row)],
    isBookkeeping: true,
  }));
}

/** Reads the members of segments: `GET /v2/segments/members`. */
export const segmentMembersJob: FeedJobType<SegmentMembersJobConfig> = {
  type: "segment_members",
  settings: segmentMembersSettings,
  isBilled: false,
  endpoints: [segmentEndpoints.members],
  writes: ["segment", "segment_member", "segment_membership_history", "segment_sync"],
  checkpoints: {
    meaning:
      "swept_at: when all pages were last read; suppressed: erased members listed then. Without a checkpoint, all pages are read",
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
