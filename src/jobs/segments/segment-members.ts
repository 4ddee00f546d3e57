import { z } from "zod";
import type { JobConfig, JobOf } from "../../config/config.ts";
import { jobSettings } from "../../config/schema/jobs.ts";
import { pageCall } from "../../extract/pages.ts";
import { countText } from "../../figures.ts";
import {
  type AddedMembers,
  addMembers,
  clearListed,
  countMembers,
  type ProvenSpan,
  removeMembers,
} from "../../load/feeds/members.ts";
import { cursorCount, cursorInstant } from "../../load/write/commit.ts";
import type { Upsert } from "../../load/write/upsert.ts";
import { type Cell, DriftLog } from "../../schemas/convert.ts";
import { segmentEndpoints } from "../../schemas/segments.ts";
import { type FeedContext, type FeedJobType, isOver, upsertRejects } from "../feed.ts";
import {
  forEachSegment,
  type KnownSegment,
  segmentGone,
  segmentsSetting,
  segmentStreams,
} from "./segments.ts";
import { type AnsweredPage, createSweep, FULL_SWEEP_EVERY_MS, type ReadPage } from "./sweep.ts";

const { name: endpoint } = segmentEndpoints.members;

const memberSettings = jobSettings("segment_members", { segments: segmentsSetting });

type SegmentMembersJobConfig = JobOf<typeof memberSettings>;
type Context = FeedContext<SegmentMembersJobConfig>;

export function membersJobOf(job: JobConfig): SegmentMembersJobConfig | null {
  return job.type === "segment_members" ? (job as SegmentMembersJobConfig) : null; // `type` identifies the settings
}

const memberCursor = z.object({
  /** End of the last complete reading, by the service's clock; null for never. */
  swept_at: cursorInstant.nullable().default(null),
  /** Members listed in that reading but not stored because they were erased. */
  suppressed: cursorCount.default(0),
});

/** Maximum pages of a segment that every run reads completely. */
const SWEEP_ALWAYS_PAGES = 50;
/** Maximum pages of a quiet check; more new members require a sweep. */
const QUIET_PAGES = 3;

interface Reading {
  readonly segment: KnownSegment;
  readonly read: ReadPage;
  readonly first: AnsweredPage;
  readonly before: z.output<typeof memberCursor>;
  /** Members before this run. */
  readonly living: number;
  /** Number of people who were not known as members. */
  readonly totals: { added: number };
}

interface Synced {
  readonly latest: AnsweredPage;
  readonly isSweep: boolean;
  /** True if all pages reported the same size. */
  readonly isSteady: boolean;
  readonly removed: number;
  readonly pending: number;
  /** Members listed but not stored, because they were erased. */
  readonly suppressed: number;
}

async function syncSegment(context: Context, segment: KnownSegment): Promise<void> {
  const { db, run, log, job, request, progress } = context;
  const { id } = segment;
  const drift = new DriftLog(endpoint);
  /** Members without a PID, by page. */
  const unusable = new Map<number, number>();
  const read: ReadPage = async (page) => {
    const call = pageCall(id, page);
    const reply = await context.call({ ...call, read: (bytes) => call.read(bytes, drift) });
    if (reply.kind === "refused") throw segmentGone(job.name, endpoint, id);
    unusable.set(page, reply.value.unusable);
    context.count({ records_received: reply.value.members.length + reply.value.unusable });
    return { ...reply.value, page, seenAt: reply.completedAt };
  };
  // An invalid cursor counts as none, so that all pages are read.
  const stored = memberCursor.safeParse(request.fullRefresh ? {} : context.checkpoints.get(id)?.cursor);
  const before = stored.data ?? memberCursor.parse({});
  const first = await read(1);
  await clearListed(db, run, id);
  const living = await countMembers(db, id);
  const reading = { segment, read, first, before, living, totals: { added: 0 } };
  const synced = (await checkQuietly(context, reading)) ?? (await sweepAll(context, reading));
  const known = await countMembers(db, id);
  const { latest, isSweep, isSteady, removed, pending, suppressed } = synced;
  const { totalCount: size, seenAt } = latest;
  // Members not listed on any page although all pages reported the same size.
  const rejected = [...unusable.values()].reduce((sum, onPage) => sum + onPage, 0);
  const missing = isSweep && isSteady ? size - known - suppressed - rejected : 0;
  const isComplete = isSweep && isSteady && pending === 0 && missing === 0;
  await context.commit({
    drift: drift.entries(),
    upserts: [
      ...rowsAbout(run.runId, reading, synced, { known, isComplete }),
      ...(isSweep ? [rejectOf(context, id, rejected, seenAt)] : []),
    ],
    counters: { records_rejected: isSweep ? rejected : 0 },
    checkpoints: isSweep ? [{ stream: id, cursor: { swept_at: seenAt, suppressed } }] : [],
  });
  await clearListed(db, run, id);
  const { added } = reading.totals;
  log.info(
    { job: job.name, segment_id: id, size, added, removed, pending, sweep: isSweep },
    "segment_synced",
  );
  if (pending > 0) {
    const members = countText(pending, "member");
    progress.note(job.name, `${members} of ${id} not listed; removal not confirmed yet`);
  }
  if (missing > 0) {
    log.warn({ job: job.name, segment_id: id, size, missing }, "segment_members_missing");
    progress.note(
      job.name,
      `${countText(missing, "member")} of the ${size} of ${id} not listed on any page; the next run reads all pages again`,
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

/** Compares the reported size with the known members and the newest pages. Null if a sweep is due or the sizes differ. */
async function checkQuietly(context: Context, reading: Reading): Promise<Synced | null> {
  const { read, first, before, living, totals } = reading;
  const { members, totalCount, listContinues } = first;
  const pages = listContinues && members.length > 0 ? Math.ceil(totalCount / members.length) : 1;
  const isDue = isOver(before.swept_at, FULL_SWEEP_EVERY_MS, Date.parse(first.seenAt));
  if (context.request.fullRefresh || pages <= SWEEP_ALWAYS_PAGES || isDue) return null;
  for (let latest = first; ; latest = await read(latest.page + 1)) {
    const { added } = await store(context, reading, latest, false);
    const { suppressed } = before;
    if (living + totals.added + suppressed === latest.totalCount) {
      return { latest, isSweep: false, isSteady: true, removed: 0, pending: 0, suppressed };
    }
    // A known member on the page means that all new ones have been listed.
    const hasMore = added === latest.members.length && latest.listContinues;
    if (!hasMore || latest.page >= QUIET_PAGES) return null;
  }
}

/** Reads all pages, stores their members and records proven removals. */
async function sweepAll(context: Context, reading: Reading): Promise<Synced> {
  const { segment, read, first, living } = reading;
  const sweep = createSweep(read);
  const remove = async (spans: readonly ProvenSpan[]) => {
    const { also } = await context.commit({ also: (writing) => removeMembers(writing, segment.id, spans) });
    return also ?? { removed: 0, pending: 0, pendingAt: [] };
  };
  let [suppressed, removed, pending] = [0, 0, 0];
  for await (const page of sweep.pages(first)) {
    suppressed += (await store(context, reading, page, living > 0)).suppressed;
  }
  if (living > 0) {
    const proven = await remove(sweep.spans());
    ({ removed, pending } = proven);
    if (pending > 0) {
      for await (const page of sweep.reread(proven.pendingAt)) await store(context, reading, page, true);
      const again = await remove(sweep.spans());
      removed += again.removed;
      ({ pending } = again);
    }
  }
  const latest = sweep.latest() ?? first;
  return { latest, isSweep: true, isSteady: sweep.isSteady(), removed, pending, suppressed };
}

/** Rejects the members without a PID in one row of the segment; resolves it once there are none. */
function rejectOf(context: Context, id: string, rejected: number, at: string): Upsert {
  const message = `${countText(rejected, "member")} of the segment ${id} can't be stored: no usable PID.`;
  const reject = { identity: ["unusable_member", context.job.name, id], sourceKey: null, message };
  const source = { source: id, code: "unusable_member", at } as const;
  return upsertRejects(context, source, () => (rejected === 0 ? [] : [reject]));
}

function rowsAbout(
  runId: string,
  { segment: { id, name }, first, totals }: Reading,
  { latest, removed, pending }: Synced,
  { known, isComplete }: { readonly known: number; readonly isComplete: boolean },
): readonly Upsert[] {
  const size = String(latest.totalCount);
  const segment: Readonly<Record<string, Cell>> = {
    segment_id: id,
    current_size: size,
    is_configured: "true",
    last_checked_at: latest.seenAt,
    ...(name === null ? {} : { name }),
    // People added during the reading may be listed only by the next one.
    ...(isComplete ? { last_complete_sync_at: first.seenAt } : {}),
  };
  const sync: Readonly<Record<string, Cell>> = {
    segment_id: id,
    run_id: runId,
    observed_at: latest.seenAt,
    current_size: size,
    known_members: String(known),
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
  settings: memberSettings,
  isBilled: false,
  endpoints: [segmentEndpoints.members],
  writes: ["segment", "segment_member", "segment_membership_history", "segment_sync"],
  checkpoints: {
    meaning:
      "swept_at: when all pages were last read; suppressed: erased members listed then. Without a checkpoint, all pages are read",
    cursor: memberCursor,
    example: { swept_at: "2026-11-21T04:00:00Z" },
    ...segmentStreams,
  },
  plannedCalls: ({ segments }) => ({
    least: segments.length,
    more: "one for each further page of 5,000 members",
  }),
  run: (context) => forEachSegment(context, context.job.segments, (segment) => syncSegment(context, segment)),
};
