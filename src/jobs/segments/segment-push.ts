import { LimitReachedError, StopJobError } from "../../errors.ts";
import { BATCH_PIDS, changeCall, pageCall, readCreated } from "../../extract/pages.ts";
import { countText } from "../../figures.ts";
import { clearListed } from "../../load/feeds/members.ts";
import {
  comparePush,
  countPush,
  finishBatch,
  noteListedPids,
  planPush,
  type PushChange,
  type PushCounts,
  readWanted,
  returnBatch,
  takeBatch,
} from "../../load/feeds/push.ts";
import type { Upsert } from "../../load/write/upsert.ts";
import { segmentEndpoints } from "../../schemas/segments.ts";
import { confirm } from "../confirm.ts";
import type { JobPlan } from "../job-type.ts";
import { type FeedContext, type FeedJobType, type FeedPlanContext, isOver, upsertRejects } from "../feed.ts";
import { type IdQuery, idReadSource, idSourceOf } from "../sources.ts";
import {
  findProblems,
  describeRename,
  leftSegment,
  type PushCheckpoint,
  pushCursor,
  pushSettings,
  readPushCheckpoint,
  type SegmentPushJobConfig,
  STREAM,
} from "./push-settings.ts";
import { segmentGone } from "./segments.ts";
import { FULL_SWEEP_EVERY_MS, type ReadPage, readPages } from "./sweep.ts";

const { create, members, add, remove } = segmentEndpoints;

type Context = FeedContext<SegmentPushJobConfig>;
type PlanContext = FeedPlanContext<SegmentPushJobConfig>;

function queryOf(job: SegmentPushJobConfig): IdQuery {
  return { ...job, path: `jobs.${job.name}`, key: "service_pid" };
}

async function run(context: Context): Promise<void> {
  const { job, run, db, log } = context;
  const before = await findOrCreate(context);
  const segmentId = before.segment_id;
  const source = await idSourceOf(queryOf(job));
  const given = await readWanted(db, run, segmentId, source);
  const { counts, checkpoint, seenAt } = await compare(context, before);
  context.count({
    records_read: given.read,
    records_unchanged: given.wanted - counts.toAdd,
    records_duplicate: given.duplicate,
    records_suppressed: given.suppressed,
    records_rejected_before_sending: given.missing,
    records_rejected: given.missing,
  });
  const none = { done: 0, sent: 0, added: 0, redundant: 0, removed: 0, rejected: 0 };
  const pushed: Pushed = { segmentId, ...none, size: checkpoint.size, seenAt };
  const isDone = await changeAll(context, counts, pushed);
  await keepSegment(context, { ...checkpoint, size: pushed.size }, [
    syncOf(context, pushed),
    rejectMissing(context, given.missing),
  ]);
  const { sent, added, redundant, removed, rejected } = pushed;
  log.info(
    { job: job.name, segment_id: segmentId, sent, added, redundant, removed, rejected },
    "segment_pushed",
  );
  if (!isDone) throw new LimitReachedError("max_records", `${job.name}: --max-records was reached.`);
}

async function plan({ db, job, checkpoints }: PlanContext): Promise<Partial<JobPlan>> {
  const known = readPushCheckpoint(job, [...checkpoints.values()]);
  const source = await idSourceOf(queryOf(job));
  const given = await planPush(db, { job: job.name }, known?.segment_id ?? null, source);
  const { toAdd, missing } = given;
  const toRemove = job.mode === "mirror" ? given.toRemove : 0;
  const asks = toRemove > job.maxRemoveRatio * given.own;
  const removed = `removes ${countText(toRemove, "member")} of the ${given.own} that it added`;
  return {
    records_read: given.read,
    records_due: toAdd,
    due_reasons: { never_answered: toAdd },
    records_unchanged: given.wanted - toAdd,
    records_duplicate: given.duplicate,
    records_suppressed: given.suppressed,
    records_rejected_before_sending: missing,
    reject_reasons: missing === 0 ? {} : { missing_key: missing },
    records_to_send: toAdd,
    needs_confirmation: asks,
    calls: (known === null ? 2 : 1) + Math.ceil(toAdd / BATCH_PIDS) + Math.ceil(toRemove / BATCH_PIDS),
    remarks: [
      "more calls, one for each further page of 5,000 members",
      ...(toRemove === 0
        ? []
        : [asks ? `${removed}: more than max_remove_ratio, so it needs --yes` : removed]),
      ...describeRename(job, [...checkpoints.values()]),
    ],
  };
}

async function findOrCreate(context: Context): Promise<PushCheckpoint> {
  const { job, checkpoints } = context;
  const stored = [...checkpoints.values()];
  const known = readPushCheckpoint(job, stored);
  if (known !== null) return known;
  for (const text of describeRename(job, stored)) context.progress.note(job.name, text);
  const { segmentName: name, description } = job;
  const reply = await context.call({
    endpoint: create,
    body: JSON.stringify(description === null ? { name } : { name, description }),
    expects: [409],
    read: readCreated,
  });
  if (reply.kind === "refused") {
    const why = reply.mayBeDone
      ? "an earlier attempt of this call without a response may have created it"
      : "it was created elsewhere, or by an earlier run whose call had no response";
    throw new StopJobError(
      "segment_exists",
      `${job.name}: ${create.name}: a segment named "${name}" already exists (409): ${why}. To fill it, look up its id in the ` +
        "service's web application and set `segment_id:` for this job. Otherwise choose another `name:`.",
    );
  }
  const created = { segment_id: reply.value, read_at: null, size: 0 };
  await keepSegment(context, created);
  context.log.info({ job: job.name, segment_id: reply.value }, "segment_created");
  return created;
}

/** Stores the checkpoint and the row of the segment; a row without others is that of a new segment. */
async function keepSegment(
  context: Context,
  checkpoint: PushCheckpoint,
  upserts: readonly Upsert[] = [],
): Promise<void> {
  const { job } = context;
  const isNew = upserts.length === 0;
  const row = {
    segment_id: checkpoint.segment_id,
    ...(checkpoint.size === null ? {} : { current_size: String(checkpoint.size) }),
    ...(job.segmentName === null ? {} : { name: job.segmentName }),
    // The service has no call that changes it.
    ...(job.description === null || !isNew ? {} : { description: job.description }),
    ...(job.segmentId === null ? { source: "api" } : {}),
    is_configured: "true",
  };
  const left = leftSegment(job, [...context.checkpoints.values()]);
  const segments = { table: "segment", isBookkeeping: !isNew };
  await context.commit({
    upserts: [
      { ...segments, columns: Object.keys(row), rows: [Object.values(row)] },
      { ...segments, columns: ["segment_id", "is_configured"], rows: left === null ? [] : [[left, "false"]] },
      ...upserts,
    ],
    checkpoints: [{ stream: STREAM, cursor: { ...checkpoint, name: job.segmentName } }],
  });
}

/**
 * Compares the query with the segment. Reads all pages of the segment if there are changes, if its size differs from the size
 * after the last run, and every {@link FULL_SWEEP_EVERY_MS}.
 */
async function compare(
  context: Context,
  before: PushCheckpoint,
): Promise<{ readonly counts: PushCounts; readonly checkpoint: PushCheckpoint; readonly seenAt: string }> {
  const { job, run, db, request } = context;
  const segmentId = before.segment_id;
  const countChanges = () => countPush(db, run, segmentId);
  const counts = await countChanges();
  const read: ReadPage = async (page) => {
    const reply = await context.call(pageCall(segmentId, page));
    if (reply.kind === "refused") throw gone(context, members.name, segmentId, false);
    return { ...reply.value, page, seenAt: reply.completedAt };
  };
  const first = await read(1);
  const isDue = request.fullRefresh || isOver(before.read_at, FULL_SWEEP_EVERY_MS, Date.parse(first.seenAt));
  const isDifferent =
    counts.toAdd > 0 || counts.unknown > 0 || (job.mode === "mirror" && counts.toRemove > 0);
  const { seenAt } = first;
  if (!isDue && !isDifferent && before.size === first.totalCount)
    return { counts, checkpoint: before, seenAt };
  await clearListed(db, run, segmentId);
  let listed = 0;
  let isSteady = true;
  for await (const page of readPages(read, first)) {
    const pids = page.members.map(({ servicePid }) => servicePid);
    listed += await noteListedPids(db, run, segmentId, pids);
    isSteady &&= page.totalCount === first.totalCount;
  }
  const isComplete = isSteady && listed === first.totalCount;
  const reading = { segmentId, isComplete, retriesInvalid: isDue };
  await context.commit({ also: (writing) => comparePush(writing, reading) });
  await clearListed(db, run, segmentId);
  const readAt = isComplete ? first.seenAt : before.read_at;
  return {
    counts: await countChanges(),
    checkpoint: { segment_id: segmentId, read_at: readAt, size: first.totalCount },
    seenAt,
  };
}

interface Pushed {
  readonly segmentId: string;
  /** PIDs in answered calls. */
  done: number;
  /** PIDs in answered calls that add. */
  sent: number;
  added: number;
  /** Added PIDs that were members already. */
  redundant: number;
  removed: number;
  rejected: number;
  /** Size of the segment after the last call; null if the service omitted it. */
  size: number | null;
  /** Time of the last response. */
  seenAt: string;
}

/** Row of what the run did to its segment so far. */
function syncOf({ run }: Context, pushed: Pushed): Upsert {
  const row = {
    segment_id: pushed.segmentId,
    run_id: run.runId,
    observed_at: pushed.seenAt,
    ...(pushed.size === null ? {} : { current_size: String(pushed.size) }),
    added: String(pushed.added),
    removed: String(pushed.removed),
    sent: String(pushed.sent),
    push_added: String(pushed.added),
    redundant: String(pushed.redundant),
    push_removed: String(pushed.removed),
    unknown: String(pushed.rejected),
  };
  return {
    table: "segment_sync",
    columns: Object.keys(row),
    rows: [Object.values(row)],
    isBookkeeping: true,
  };
}

/** Adds, then removes. Returns false if `--max-records` left some PIDs. */
async function changeAll(context: Context, counts: PushCounts, pushed: Pushed): Promise<boolean> {
  const { job, progress, request } = context;
  let isDone = false;
  try {
    if (job.mode === "mirror" && counts.toRemove > job.maxRemoveRatio * counts.own) {
      const share = `${countText(counts.toRemove, "member")} of the ${counts.own} that it added`;
      await confirm(context, job.name, request, {
        kind: "ask",
        reason: `the query no longer returns ${share}: more than max_remove_ratio (${job.maxRemoveRatio}) allows`,
      });
    }
    progress.start(job.name, counts.toAdd, add.name);
    isDone =
      (await changeListed(context, "add", pushed)) &&
      (job.mode === "append" || (await changeListed(context, "remove", pushed)));
    return isDone;
  } finally {
    progress.end(job.name);
    const left = counts.toAdd - pushed.sent;
    // Unsent PIDs belong to people erased since the comparison.
    context.count(isDone ? { records_suppressed: left } : { records_remaining: left });
  }
}

/** Adds or removes all pending PIDs. Returns false if `--max-records` left some. */
async function changeListed(context: Context, change: PushChange, pushed: Pushed): Promise<boolean> {
  const { request, db, run } = context;
  const { segmentId } = pushed;
  let size = BATCH_PIDS;
  let after = "";
  for (;;) {
    const limit = Math.min(size, (request.maxRecords ?? Number.POSITIVE_INFINITY) - pushed.done);
    if (limit <= 0) {
      const counts = await countPush(db, run, segmentId);
      return (change === "add" ? counts.toAdd : counts.toRemove) === 0;
    }
    const begin = { change, after, limit };
    const { pids, last } = await takeBatch(db, run, segmentId, begin);
    if (last === null) return true;
    if (pids.length === 0 || (await sendBatch(context, { change, pids }, pushed))) after = last;
    else {
      await returnBatch(db, run, segmentId, { change, pids });
      size = Math.ceil(pids.length / 2);
    }
  }
}

/** Makes one call and records its answer. Returns false if the service rejected it as too large. */
async function sendBatch(
  context: Context,
  { change, pids }: { readonly change: PushChange; readonly pids: readonly string[] },
  pushed: Pushed,
): Promise<boolean> {
  const { segmentId } = pushed;
  const isAdd = change === "add";
  const endpoint = isAdd ? add : remove;
  const reply = await context.call({
    ...changeCall(endpoint, segmentId, pids),
    expects: pids.length > 1 ? [404, 413] : [404],
  });
  if (reply.kind === "refused") {
    if (reply.status === 404) throw gone(context, endpoint.name, segmentId, pushed.done > 0);
    return false;
  }
  const { value: answer, apiRequestId, mayBeDone } = reply;
  const invalid = isAdd ? invalidOf(pids, answer.invalid) : [];
  const [sent, rejected] = [pids.length, invalid.length];
  const [changed, redundant] = [answer.changed ?? 0, answer.redundant ?? 0];
  pushed.done += sent;
  pushed.size = answer.newSize;
  pushed.seenAt = reply.completedAt;
  if (isAdd) {
    pushed.sent += sent;
    pushed.added += changed;
    pushed.redundant += redundant;
    pushed.rejected += rejected;
  } else pushed.removed += changed;
  const finished = {
    segmentId,
    change,
    pids,
    invalid,
    // No PID was a member before. An earlier attempt without an answer may have added some.
    isOwn: answer.redundant === 0 && !mayBeDone,
    apiRequestId,
    rejectMessage: `${endpoint.name}: the service does not have this PID.`,
  };
  const added = { records_added: changed, records_redundant: redundant };
  await context.commit({
    upserts: [syncOf(context, pushed)],
    also: (writing) => finishBatch(writing, finished),
    counters: isAdd
      ? { records_sent: sent, records_matched: sent - rejected, records_rejected: rejected, ...added }
      : { records_removed: changed },
    drift: reply.drift.entries(),
  });
  context.progress.advance(context.job.name, sent, { rejected });
  return true;
}

function gone({ job }: Context, endpoint: string, segmentId: string, isChanged: boolean): StopJobError {
  const reset = job.segmentId === null ? ` or run \`checkpoint reset ${job.name}\` to create a new one` : "";
  const soFar = isChanged ? "Earlier changes are kept." : "Nothing was changed.";
  return segmentGone(job.name, endpoint, segmentId, `${soFar} Correct \`segment_id:\`${reset}.`);
}

const plain = (pid: string): string => pid.trim().toLowerCase();

/** Returns the PIDs reported as invalid, even if spelled differently. */
function invalidOf(given: readonly string[], invalid: readonly string[]): readonly string[] {
  const [asked, exact] = [new Set(given), new Set(invalid)];
  const others = new Set(invalid.filter((pid) => !asked.has(pid)).map(plain));
  return given.filter((pid) => exact.has(pid) || others.has(plain(pid)));
}

function rejectMissing(context: Context, missing: number): Upsert {
  const { name } = context.job;
  return upsertRejects(context, { source: name, code: "missing_key" }, function* () {
    const message = "The query returned a row without a service_pid.";
    for (let n = 1; n <= missing; n++) {
      yield { identity: ["row without a PID", name, String(n)], sourceKey: null, message };
    }
  });
}

/** Fills a segment with the PIDs returned by a query. */
export const segmentPushJob: FeedJobType<SegmentPushJobConfig> = {
  type: "segment_push",
  settings: pushSettings,
  isBilled: false,
  findProblems,
  endpoints: [create, members, add, remove],
  writes: ["segment", "segment_push_member", "segment_sync"],
  checkpoints: {
    meaning:
      "segment_id: the segment; name: its name when it was filled; read_at: when it was last read completely; size: members after the last run",
    cursor: pushCursor,
    dependent: { on: "segment_id", keys: ["name", "read_at", "size"] },
    example: { segment_id: "123e4567-e89b-12d3-a456-426614174000" },
    streams: async () => [STREAM],
    noStream: "its segment has not been created yet",
  },
  reads: (job, config) => [idReadSource(queryOf(job), config)],
  plannedCalls: () => ({
    least: 1,
    more: "one for each further page of 5,000 members and for each 10,000 PIDs to add or to remove",
  }),
  remarks: describeRename,
  plan,
  run,
};
