import type { SegmentPushJobConfig } from "../config/config.ts";
import { StopJobError } from "../errors.ts";
import { readChange, readCreated } from "../extract/segment-change.ts";
import { microsOf, readMemberPage } from "../extract/segment-page.ts";
import type { PushChange, PushCounts, SegmentPush } from "../load/push-warehouse.ts";
import { DriftLog } from "../schemas/drift.ts";
import { segmentEndpoints } from "../schemas/segments.ts";
import { agree } from "./agree.ts";
import { countText } from "./estimate.ts";
import type { FeedContext, FeedJobType } from "./feed-type.ts";
import { BATCH_PIDS, forecastPush, removesTooMany } from "./forecast-push.ts";
import { fullAtOf, isFullDue, PUSH_STREAM, segmentOfPush } from "./push-checkpoint.ts";
import { pushSourceOf } from "./push-source.ts";

const { create, members, add, remove } = segmentEndpoints;

type Context = FeedContext<SegmentPushJobConfig>;

/** The segment of a job, and a moment by the service's clock before anything was changed. */
interface Target {
  readonly segmentId: string;
  readonly at: string;
  readonly size: number;
}

/** Makes the segment, unless it is there. */
async function findOrCreate(context: Context): Promise<string> {
  const { job, checkpoints } = context;
  const known = job.segmentId ?? segmentOfPush([...checkpoints.values()])?.segmentId;
  if (known !== undefined) return known;
  const { segmentName: name, description } = job;
  const drift = new DriftLog(create.name);
  const reply = await context.call({
    endpoint: create.name,
    method: create.method,
    path: create.path,
    body: JSON.stringify(description === null ? { name } : { name, description }),
    expects: [409],
    read: (bytes) => readCreated(bytes, drift),
  });
  if (reply.kind === "refused") {
    const why = reply.mayBeDone
      ? "an earlier try of this very call may have made it, though its answer never came"
      : "somebody else made it, or an earlier run whose answer never came";
    throw new StopJobError(
      "segment_exists",
      `${job.name}: ${create.name}: there is a segment of the name "${name}" already (409): ${why}. If it is the one to fill, look its ` +
        "id up in the service's web application and set `segment_id:` for this job; else choose another `name:`.",
    );
  }
  await keepSegment(context, reply.value, { size: 0, fullAt: null, isNew: true });
  context.log.info({ job: job.name, segment_id: reply.value }, "segment_created");
  return reply.value;
}

/** Remembers the segment, with what is known of it. */
async function keepSegment(
  context: Context,
  segmentId: string,
  known: { readonly size: number; readonly fullAt: string | null; readonly isNew?: boolean },
): Promise<void> {
  const { job } = context;
  const isOurs = job.segmentId === null;
  const row = [
    ["segment_id", segmentId],
    ["current_size", String(known.size)],
    ...(job.segmentName === null ? [] : [["name", job.segmentName]]),
    ...(job.description === null ? [] : [["description", job.description]]),
    ...(isOurs ? [["source", "api"]] : []),
  ] as const;
  await context.commit({
    upserts: [
      {
        table: "segment",
        columns: row.map(([column = ""]) => column),
        rows: [row.map(([, cell = null]) => cell)],
        isBookkeeping: known.isNew !== true,
      },
    ],
    checkpoints: [{ stream: PUSH_STREAM, cursor: { segment_id: segmentId, full_at: known.fullAt } }],
  });
}

async function readPage(context: Context, segmentId: string, page: number) {
  const drift = new DriftLog(members.name);
  const reply = await context.call({
    endpoint: members.name,
    method: members.method,
    path: `${members.path}?segment_id=${encodeURIComponent(segmentId)}&page=${page}`,
    body: null,
    expects: [404],
    read: (bytes) => readMemberPage(bytes, page, drift),
  });
  if (reply.kind === "refused") throw gone(context, members.name, segmentId);
  return { page: reply.value, seenAt: reply.answeredAt };
}

function gone({ job }: Context, endpoint: string, segmentId: string): StopJobError {
  const reset = job.segmentId === null ? ` or run \`checkpoint reset ${job.name}\` to make a new one` : "";
  return new StopJobError(
    "segment_gone",
    `${job.name}: ${endpoint}: the service knows no segment ${segmentId} (404): it was deleted, or belongs to another ` +
      `organization. Nothing was changed; correct \`segment_id:\`${reset}.`,
  );
}

/**
 * Who was first added since a moment: those are this job's own, since no other call of it was under way. Who was a member long
 * ago and comes back keeps the old time and doesn't count, so that `mirror` rather leaves somebody than removes whom others added.
 */
async function addedSince(context: Context, segmentId: string, since: string): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  const sinceUs = microsOf(since);
  for (let number = 1; ; number++) {
    const { page } = await readPage(context, segmentId, number);
    let isOlder = page.members.length === 0;
    for (const { servicePid, firstAddedAt } of page.members) {
      if (firstAddedAt === null) continue;
      // A service may cut its times to milliseconds or seconds.
      const unitUs = firstAddedAt.includes(".") ? 1000 : 1_000_000;
      if (microsOf(firstAddedAt) >= Math.floor(sinceUs / unitUs) * unitUs) found.add(servicePid);
      else isOlder = true;
    }
    if (isOlder || !page.listContinues) return found;
  }
}

/** Totals of a run. */
interface Pushed {
  sent: number;
  added: number;
  removed: number;
  rejected: number;
  size: number;
  /** By the service's clock. */
  at: string;
}

async function changeMembers(
  context: Context,
  push: SegmentPush,
  target: Target,
  of: { readonly change: PushChange; readonly pids: readonly string[]; readonly pushed: Pushed },
): Promise<void> {
  const { change, pids, pushed } = of;
  const { name: endpoint, method, path } = change === "adding" ? add : remove;
  const { outage, job } = context;
  const since = pushed.at;
  await outage.outlast(() => push.begin(change, pids, since));
  const drift = new DriftLog(endpoint);
  const reply = await context.call({
    endpoint,
    method,
    path,
    body: JSON.stringify({ segment_id: target.segmentId, service_pids: pids }),
    recordsSent: pids.length,
    expects: pids.length > 1 ? [404, 413] : [404],
    read: (bytes) => readChange(bytes, drift),
  });
  if (reply.kind === "refused") {
    if (reply.status === 404) throw gone(context, endpoint, target.segmentId);
    const middle = Math.ceil(pids.length / 2);
    await changeMembers(context, push, target, { ...of, pids: pids.slice(0, middle) });
    await changeMembers(context, push, target, { ...of, pids: pids.slice(middle) });
    return;
  }
  const { value: answer, answeredAt, tries } = reply;
  const given = new Set(pids);
  const invalid = answer.invalid.filter((pid) => given.has(pid));
  // Without a single answer to a single try it isn't known who was a member before.
  const isCertain = tries === 1 && answer.redundant === 0;
  const own =
    change === "adding" && !isCertain
      ? new Set([...(await addedSince(context, target.segmentId, since))].filter((pid) => given.has(pid)))
      : null;
  reconcile(context, { change, given: given.size, before: pushed.size, answer, invalid: invalid.length });
  pushed.at = answeredAt;
  pushed.size = answer.newSize ?? pushed.size;
  if (change === "adding") {
    pushed.sent += given.size;
    pushed.added += answer.changed ?? 0;
    pushed.rejected += invalid.length;
  } else pushed.removed += answer.changed ?? 0;
  const counters =
    change === "adding"
      ? {
          records_sent: given.size,
          records_matched: given.size - invalid.length,
          records_rejected: invalid.length,
        }
      : {};
  await context.commitWith(counters, (books) =>
    push.finish({ ...books, drift: drift.entries(), upserts: [], checkpoints: [] }, change, pids, {
      invalid: change === "adding" ? invalid : [],
      own,
      apiRequestId: null,
      rejectMessage: `${endpoint}: the service knows nobody by this PID.`,
    }),
  );
  context.progress.advance(job.name, given.size, { rejected: invalid.length });
}

/** Compares the service's counts with each other; what others changed meanwhile is no error, but worth a word. */
function reconcile(
  { log, job }: Context,
  of: {
    readonly change: PushChange;
    readonly given: number;
    readonly before: number;
    readonly answer: { changed: number | null; redundant: number | null; newSize: number | null };
    readonly invalid: number;
  },
): void {
  const { change, given, before, answer, invalid } = of;
  const { changed, redundant, newSize } = answer;
  if (changed === null || newSize === null) return;
  const expected = before + (change === "adding" ? changed : -changed);
  const unaccounted = change === "adding" ? given - invalid - changed - (redundant ?? 0) : 0;
  if (expected === newSize && unaccounted === 0) return;
  log.warn({ job: job.name, expected_size: expected, size: newSize, unaccounted }, "segment_counts_differ");
}

/** Asks before more is removed than `max_remove_ratio` allows. */
async function agreeToRemove(context: Context, { toRemove, own }: PushCounts): Promise<void> {
  const { job, request } = context;
  if (!removesTooMany(job, { toRemove, own })) return;
  const share = `${countText(toRemove, "member")} of the ${own} that it added`;
  await agree(context, job.name, request, {
    kind: "ask",
    reason: `the query no longer gives ${share}, more than max_remove_ratio (${job.maxRemoveRatio}) allows to remove`,
  });
}

async function pushAll(context: Context): Promise<void> {
  const { job, run, warehouse, outage, progress, clock } = context;
  const segmentId = await findOrCreate(context);
  const before = segmentOfPush([...context.checkpoints.values()]);
  const first = await readPage(context, segmentId, 1);
  const target: Target = { segmentId, at: first.seenAt, size: first.page.totalCount };
  const fullAt = context.request.fullRefresh ? null : fullAtOf(before, segmentId);
  const again = isFullDue(fullAt, job, clock.now());
  const source = await pushSourceOf(job);
  const push = await outage.outlast(() => warehouse.openPush(run, { segmentId, source, again }));
  const pushed: Pushed = { sent: 0, added: 0, removed: 0, rejected: 0, size: target.size, at: target.at };
  try {
    if (push.uncertainSince !== null) {
      const own = await addedSince(context, segmentId, instantOf(push.uncertainSince));
      await context.commitWith({}, (books) =>
        push.settleUncertain({ ...books, drift: [], upserts: [], checkpoints: [] }, own),
      );
    }
    const counts = await outage.outlast(() => push.count());
    context.count({
      records_read: counts.read,
      records_unchanged: counts.unchanged,
      records_duplicate: counts.duplicate,
      records_suppressed: counts.suppressed,
      records_rejected_before_sending: counts.missing,
      records_rejected: counts.missing,
    });
    try {
      if (job.mode === "mirror") await agreeToRemove(context, counts);
      progress.start(job.name, counts.toAdd, add.name);
      await changeAll(context, push, target, { change: "adding", pushed });
      if (job.mode === "mirror") await changeAll(context, push, target, { change: "removing", pushed });
    } finally {
      progress.end(job.name);
      context.count({ records_remaining: counts.toAdd - pushed.sent });
    }
    const nowText = new Date(clock.now()).toISOString();
    await keepSegment(context, segmentId, { size: pushed.size, fullAt: again ? nowText : fullAt });
    const { sent, added, removed, rejected } = pushed;
    context.log.info(
      { job: job.name, segment_id: segmentId, sent, added, removed, rejected },
      "segment_pushed",
    );
    throwIfTooMany(job, sent + counts.missing, rejected + counts.missing);
  } finally {
    await outage.outlast(() => push.close());
  }
}

/** `2026-11-21T04:00:00.1Z` in the form of the service's instants. */
function instantOf(text: string): string {
  return text.replace(/Z$/u, "+00:00");
}

async function changeAll(
  context: Context,
  push: SegmentPush,
  target: Target,
  of: { readonly change: PushChange; readonly pushed: Pushed },
): Promise<void> {
  let after = "";
  for (;;) {
    const pids = await context.outage.outlast(() => push.next(of.change, after, BATCH_PIDS));
    const last = pids.at(-1);
    if (last === undefined) return;
    await changeMembers(context, push, target, { ...of, pids });
    after = last;
  }
}

function throwIfTooMany({ name, maxRejectRatio }: SegmentPushJobConfig, tried: number, rejected: number) {
  if (maxRejectRatio === null || rejected <= maxRejectRatio * tried) return;
  throw new StopJobError(
    "too_many_rejects",
    `${name}: ${rejected} of ${countText(tried, "PID")} were rejected, more than max_reject_ratio (${maxRejectRatio}) allows. The ` +
      "others are members; the table `reject` says which are not.",
  );
}

/** Makes a segment of what a query gives. */
export const segmentPushJob: FeedJobType<SegmentPushJobConfig> = {
  endpoints: [create, members, add, remove],
  cursorDoc: "segment_id: the segment that was made; full_at: when everybody was last added again",
  forecast: forecastPush,
  run: pushAll,
};
