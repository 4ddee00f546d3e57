import { suppressedPids } from "../../load/erasure/keep-out-sql.ts";
import { openPush } from "../../load/feeds/segment-push.ts";
import { LimitReachedError, StopJobError } from "../../errors.ts";
import { changeCall, readCreated } from "../../extract/segment-change.ts";
import type { FeedUpsert } from "../../load/feeds/feed-commit.ts";
import type { PushChange, PushCounts, PushList, SegmentPush } from "../../load/feeds/push.ts";
import { DriftLog } from "../../schemas/drift.ts";
import { segmentEndpoints } from "../../schemas/segments.ts";
import { addedSince, gone, type PushedTo, readPage } from "./added-since.ts";
import { agree } from "../agree.ts";
import { countText } from "../lookup/estimate.ts";
import { upsertRejects } from "./feed-rejects.ts";
import type { FeedContext, FeedJobType } from "../feed-type.ts";
import {
  againOf,
  cursorOfPush,
  PUSH_STREAM,
  pushCursor,
  type PushedSegment,
  segmentOfPush,
} from "./push-checkpoint.ts";
import { pushReadSource, pushSourceOf } from "./push-source.ts";
import {
  NO_SEGMENT,
  type SegmentPushJobConfig,
  segmentPushComplaints,
  segmentPushSettings,
} from "./settings.ts";

const { create, members, add, remove } = segmentEndpoints;

/** PIDs of one call (section 8 advises 1,000 to 10,000). */
const BATCH_PIDS = 10_000;

/** Bytes of the PIDs of one call, each with two more. */
const BATCH_BYTES = 500_000;

type Context = FeedContext<SegmentPushJobConfig>;

/** Makes the segment, unless it is there. */
async function findOrCreate(context: Context): Promise<string> {
  const { job, checkpoints } = context;
  const known = job.segmentId ?? segmentOfPush(job.name, [...checkpoints.values()])?.segmentId;
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
  await keepSegment(
    context,
    { segmentId: reply.value, fullAt: null, againSince: null },
    { size: 0, isNew: true },
  );
  context.log.info({ job: job.name, segment_id: reply.value }, "segment_created");
  return reply.value;
}

/** What is noted along with a segment. */
interface KeptWith {
  readonly size: number;
  readonly isNew?: boolean;
  readonly upserts?: readonly FeedUpsert[];
}

/** Remembers the segment, with what is known of it. */
async function keepSegment(
  context: Context,
  segment: PushedSegment,
  { size, isNew = false, upserts = [] }: KeptWith,
): Promise<void> {
  const { job } = context;
  const isOurs = job.segmentId === null;
  const row = [
    ["segment_id", segment.segmentId],
    ["current_size", String(size)],
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
        isBookkeeping: !isNew,
      },
      ...upserts,
    ],
    checkpoints: [{ stream: PUSH_STREAM, cursor: cursorOfPush(segment) }],
  });
}

/** Totals of a run. */
interface Pushed {
  /** People of calls that were answered, whatever was asked for. */
  done: number;
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
  segmentId: string,
  of: { readonly list: PushList; readonly pids: readonly string[]; readonly pushed: Pushed },
): Promise<void> {
  const { list, pushed } = of;
  const change = list === "removing" ? list : "adding";
  const target = change === "adding" ? add : remove;
  const { name: endpoint } = target;
  const { outage, job } = context;
  const since = pushed.at;
  const pids = await outage.outlast(() => push.begin(change, of.pids, since));
  // All of them were erased meanwhile.
  if (pids.length === 0) return;
  const drift = new DriftLog(endpoint);
  const reply = await context.call({
    ...changeCall(target, segmentId, pids, drift),
    expects: pids.length > 1 ? [404, 413] : [404],
  });
  if (reply.kind === "refused") {
    if (reply.status === 404) throw gone(context, endpoint, { segmentId, isChanged: pushed.done > 0 });
    const middle = Math.ceil(pids.length / 2);
    await changeMembers(context, push, segmentId, { ...of, pids: pids.slice(0, middle) });
    await changeMembers(context, push, segmentId, { ...of, pids: pids.slice(middle) });
    return;
  }
  const { value: answer, answeredAt, apiRequestId, mayBeDone } = reply;
  pushed.done += pids.length;
  const given = new Set(pids);
  const invalid = invalidOf(pids, answer.invalid);
  // Else it isn't known who was a member before. Of those who are added again it doesn't matter: they stay whose they were.
  const isCertain = list !== "adding" || (!mayBeDone && answer.redundant === 0);
  const own = isCertain
    ? null
    : new Set(
        [...(await addedSince(context, { segmentId, isChanged: true }, since))].filter((pid) =>
          given.has(pid),
        ),
      );
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
      apiRequestId,
      rejectMessage: `${endpoint}: the service knows nobody by this PID.`,
    }),
  );
  context.progress.advance(job.name, given.size, { rejected: invalid.length });
  if (change === "adding") await takeBack(context, segmentId, { pids, pushed });
}

const plain = (pid: string): string => pid.trim().toLowerCase();

/** Those of the given PIDs that the service calls invalid, be it in another spelling. */
function invalidOf(given: readonly string[], invalid: readonly string[]): readonly string[] {
  if (invalid.length === 0) return [];
  const [asked, exact] = [new Set(given), new Set(invalid)];
  const others = new Set(invalid.filter((pid) => !asked.has(pid)).map(plain));
  return given.filter((pid) => exact.has(pid) || others.has(plain(pid)));
}

/** Removes again who was erased while they were being added: who erased them knew nothing of it. */
async function takeBack(
  context: Context,
  segmentId: string,
  { pids, pushed }: { readonly pids: readonly string[]; readonly pushed: Pushed },
): Promise<void> {
  const { db, outage } = context;
  const erased = [...(await outage.outlast(() => suppressedPids(db, pids)))];
  if (erased.length === 0) return;
  const reply = await context.call(changeCall(remove, segmentId, erased, new DriftLog(remove.name)));
  if (reply.kind === "refused") throw gone(context, remove.name, { segmentId, isChanged: true });
  pushed.at = reply.answeredAt;
  pushed.size = reply.value.newSize ?? pushed.size;
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
  if (toRemove <= job.maxRemoveRatio * own) return;
  const share = `${countText(toRemove, "member")} of the ${own} that it added`;
  await agree(context, job.name, request, {
    kind: "ask",
    reason: `the query no longer gives ${share}, more than max_remove_ratio (${job.maxRemoveRatio}) allows to remove`,
  });
}

async function pushAll(context: Context): Promise<void> {
  const { job, run, db, outage } = context;
  const segmentId = await findOrCreate(context);
  const before = segmentOfPush(job.name, [...context.checkpoints.values()]);
  const known = before?.segmentId === segmentId && !context.request.fullRefresh ? before : null;
  const again = againOf(known, job, context.clock.now());
  const source = await pushSourceOf(job);
  const push = await outage.outlast(() => openPush(db, run, { segmentId, source, again }));
  try {
    await pushTo(context, push, { segmentId, fullAt: known?.fullAt ?? null, againSince: push.againSince });
  } finally {
    await outage.outlast(() => push.close());
  }
}

async function pushTo(context: Context, push: SegmentPush, segment: PushedSegment): Promise<void> {
  const { job, outage, clock } = context;
  const { segmentId } = segment;
  const unchanged: PushedTo = { segmentId, isChanged: false };
  if (push.uncertainSince !== null) {
    const own = await addedSince(context, unchanged, push.uncertainSince);
    await context.commitWith({}, (books) =>
      push.settleUncertain({ ...books, drift: [], upserts: [], checkpoints: [] }, own),
    );
  }
  // A pass that doesn't come to its end is gone on with by the next run.
  if (segment.againSince !== null) {
    await context.commit({ checkpoints: [{ stream: PUSH_STREAM, cursor: cursorOfPush(segment) }] });
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
  const pushed: Pushed = { done: 0, sent: 0, added: 0, removed: 0, rejected: 0, size: 0, at: "" };
  const isDone = await changeAll(context, push, segmentId, { counts, pushed });
  const fullAt = segment.againSince === null ? segment.fullAt : new Date(clock.now()).toISOString();
  const after = isDone ? { segmentId, fullAt, againSince: null } : segment;
  await keepSegment(context, after, { size: pushed.size, upserts: [rejectMissing(context, counts)] });
  const { sent, added, removed, rejected } = pushed;
  context.log.info(
    { job: job.name, segment_id: segmentId, sent, added, removed, rejected },
    "segment_pushed",
  );
  throwIfTooMany(job, counts, { sent, rejected });
  if (!isDone) throw new LimitReachedError("max_records", `${job.name}: --max-records was reached.`);
}

/** A row of `reject` for each row of the query without a PID, as long as it gives so many. */
function rejectMissing({ job, run, clock }: Context, { missing }: PushCounts): FeedUpsert {
  const at = new Date(clock.now()).toISOString();
  return upsertRejects({ run, source: job.name, code: "missing_key", apiRequestId: null, at }, function* () {
    for (let n = 1; n <= missing; n++) {
      yield {
        identity: ["row without a PID", job.name, String(n)],
        sourceKey: null,
        message: "The query gave a row without a service_pid.",
      };
    }
  });
}

/** What is known before, and counted on the way. */
interface Progressing {
  readonly counts: PushCounts;
  readonly pushed: Pushed;
}

/** Makes the segment what the query gives; false where `--max-records` left something undone. */
async function changeAll(
  context: Context,
  push: SegmentPush,
  segmentId: string,
  { counts, pushed }: Progressing,
): Promise<boolean> {
  const { job, progress } = context;
  // Who is new or gone comes first: adding everybody again may take several runs.
  const lists: readonly PushList[] =
    job.mode === "mirror" ? ["adding", "removing", "again"] : ["adding", "again"];
  let isDone = false;
  try {
    if (job.mode === "mirror") await agreeToRemove(context, counts);
    // Only now, since query and question may have taken long: who was added meanwhile was added by others.
    const first = await readPage(context, { segmentId, isChanged: false }, 1);
    pushed.size = first.page.totalCount;
    pushed.at = first.seenAt;
    progress.start(job.name, counts.toAdd, add.name);
    for (const list of lists) {
      if (!(await changeListed(context, push, segmentId, { list, pushed }))) return false;
    }
    isDone = true;
    return true;
  } finally {
    progress.end(job.name);
    const left = counts.toAdd - pushed.sent;
    // Whom the query gave and nobody sent was erased meanwhile.
    context.count(isDone ? { records_suppressed: left } : { records_remaining: left });
  }
}

async function changeListed(
  context: Context,
  push: SegmentPush,
  segmentId: string,
  of: { readonly list: PushList; readonly pushed: Pushed },
): Promise<boolean> {
  const { maxRecords } = context.request;
  let after = "";
  for (;;) {
    const room = Math.min(BATCH_PIDS, (maxRecords ?? Number.POSITIVE_INFINITY) - of.pushed.done);
    const listed = await context.outage.outlast(() => push.next(of.list, after, Math.max(room, 1)));
    const pids = cutToSize(listed);
    const last = pids.at(-1);
    if (last === undefined) return true;
    if (room <= 0) return false;
    await changeMembers(context, push, segmentId, { ...of, pids });
    after = last;
  }
}

/** As many of the first PIDs as fit into one call, at least one. */
function cutToSize(pids: readonly string[]): readonly string[] {
  let bytes = 0;
  for (const [i, pid] of pids.entries()) {
    bytes += Buffer.byteLength(pid) + 2;
    if (bytes > BATCH_BYTES) return pids.slice(0, Math.max(i, 1));
  }
  return pids;
}

/** Rows without a PID are judged by all that the query gives: they come again each time. */
function throwIfTooMany(
  { name, maxRejectRatio }: SegmentPushJobConfig,
  { missing, read }: PushCounts,
  { sent, rejected }: Pick<Pushed, "sent" | "rejected">,
): void {
  if (maxRejectRatio === null) return;
  const problems = [
    ...(rejected > maxRejectRatio * sent
      ? [`${rejected} of ${countText(sent, "PID")} were rejected; the table \`reject\` says which`]
      : []),
    ...(missing > maxRejectRatio * read
      ? [`${missing} of ${countText(read, "row")} of the query have no service_pid`]
      : []),
  ];
  if (problems.length === 0) return;
  throw new StopJobError(
    "too_many_rejects",
    `${name}: ${problems.join(", and ")}: more than max_reject_ratio (${maxRejectRatio}) allows. The others are members.`,
  );
}

/** Makes a segment of what a query gives. */
export const segmentPushJob: FeedJobType<SegmentPushJobConfig> = {
  type: "segment_push",
  settings: segmentPushSettings,
  isBilled: false,
  complaints: segmentPushComplaints,
  endpoints: [create, members, add, remove],
  writes: ["segment", "segment_push_member"],
  checkpoints: {
    meaning:
      "segment_id: the segment that was made; full_at: when everybody was last added again; again_since: while that is going on",
    cursor: pushCursor,
    example: { segment_id: "123e4567-e89b-12d3-a456-426614174000", full_at: "2026-11-21T04:00:00Z" },
    streams: async () => [PUSH_STREAM],
    noStream: () => NO_SEGMENT,
  },
  reads: (job, config) => [pushReadSource(job, config)],
  plannedCalls: () => ({ least: 1, more: "one for each 10,000 PIDs to add or to remove" }),
  run: pushAll,
};
