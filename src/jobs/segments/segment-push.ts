import { LimitReachedError, StopJobError } from "../../errors.ts";
import { type ChangeAnswer, changeCall, pageCall, readCreated } from "../../extract/pages.ts";
import { countText } from "../../figures.ts";
import { confirm } from "../confirm.ts";
import { type FeedContext, type FeedJobType, isOver, upsertRejects } from "../feed.ts";
import {
  describeRename,
  FULL_SWEEP_EVERY_MS,
  NO_SEGMENT,
  PUSH_STREAM,
  type PushCheckpoint,
  pushCursor,
  readPushCheckpoint,
  segmentPushComplaints,
  type SegmentPushJobConfig,
  segmentPushSettings,
} from "./segments.ts";
import { type AnsweredPage, type ReadPage, readPages } from "./sweep.ts";
import { type IdQuery, idReadSource, idSourceOf } from "../sources.ts";
import { clearListed } from "../../load/feeds/members.ts";
import {
  comparePush,
  countPush,
  finishBatch,
  type GivenRows,
  noteListedPids,
  type PushChange,
  type PushCounts,
  readWanted,
  returnBatch,
  takeBatch,
} from "../../load/feeds/push.ts";
import type { Upsert } from "../../load/write/upsert.ts";
import { segmentEndpoints } from "../../schemas/segments.ts";

const { create, members, add, remove } = segmentEndpoints;

type Context = FeedContext<SegmentPushJobConfig>;

/** PIDs per call (section 8 advises 1,000 to 10,000). */
const BATCH_PIDS = 10_000;

/** Fills a segment with the PIDs returned by a query. */
export const segmentPushJob: FeedJobType<SegmentPushJobConfig> = {
  type: "segment_push",
  settings: segmentPushSettings,
  isBilled: false,
  complaints: segmentPushComplaints,
  endpoints: [create, members, add, remove],
  writes: ["segment", "segment_push_member"],
  checkpoints: {
    meaning:
      "segment_id: the segment; name: its name when it was filled; read_at: when it was last read completely; size: members after the last run",
    cursor: pushCursor,
    about: { key: "segment_id", keys: ["name", "read_at", "size"] },
    example: { segment_id: "123e4567-e89b-12d3-a456-426614174000" },
    streams: async () => [PUSH_STREAM],
    noStream: () => NO_SEGMENT,
  },
  reads: (job, config) => [idReadSource(queryOf(job), config)],
  plannedCalls: () => ({
    least: 1,
    more: "one for each further page of 5,000 members and for each 10,000 PIDs to add or to remove",
  }),
  remarks: describeRename,
  run: pushAll,
};

function queryOf(job: SegmentPushJobConfig): IdQuery {
  return { ...job, path: `jobs.${job.name}`, key: "service_pid" };
}

async function pushAll(context: Context): Promise<void> {
  const { job, run, db, retryWhileDown, log } = context;
  const before = await findOrCreate(context);
  const segmentId = before.segment_id;
  const source = await idSourceOf(queryOf(job));
  const given = await retryWhileDown(() => readWanted(db, run, segmentId, source));
  const { counts, checkpoint } = await compare(context, before);
  context.count({
    records_read: given.read,
    records_unchanged: given.wanted - counts.toAdd,
    records_duplicate: given.duplicate,
    records_suppressed: given.suppressed,
    records_rejected_before_sending: given.missing,
    records_rejected: given.missing,
  });
  const pushed: Pushed = { done: 0, sent: 0, added: 0, removed: 0, rejected: 0, size: checkpoint.size };
  const isDone = await changeAll(context, segmentId, counts, pushed);
  const after = { ...checkpoint, size: pushed.size };
  await keepSegment(context, after, { upserts: [rejectMissing(context, given)] });
  const { sent, added, removed, rejected } = pushed;
  log.info({ job: job.name, segment_id: segmentId, sent, added, removed, rejected }, "segment_pushed");
  if (!isDone) throw new LimitReachedError("max_records", `${job.name}: --max-records was reached.`);
}

/** Returns the checkpoint of the job's segment; creates the segment if there is none. */
async function findOrCreate(context: Context): Promise<PushCheckpoint> {
  const { job, checkpoints } = context;
  const known = readPushCheckpoint(job, [...checkpoints.values()]);
  if (known !== null) return known;
  for (const text of describeRename(job, [...checkpoints.values()])) context.progress.note(job.name, text);
  const { segmentName: name, description } = job;
  const reply = await context.call({
    endpoint: create,
    body: JSON.stringify(description === null ? { name } : { name, description }),
    expects: [409],
    read: readCreated,
  });
  if (reply.kind === "refused") {
    const why = reply.mayBeDone
      ? "an earlier attempt of this call without an answer may have created it"
      : "it was created elsewhere, or by an earlier run whose call got no answer";
    throw new StopJobError(
      "segment_exists",
      `${job.name}: ${create.name}: a segment named "${name}" already exists (409): ${why}. To fill it, look up its id in the ` +
        "service's web application and set `segment_id:` for this job. Otherwise choose another `name:`.",
    );
  }
  const created = { segment_id: reply.value, read_at: null, size: 0 };
  await keepSegment(context, created, { isNew: true });
  context.log.info({ job: job.name, segment_id: created.segment_id }, "segment_created");
  return created;
}

/** Stores the checkpoint and the row of the segment. */
async function keepSegment(
  context: Context,
  checkpoint: PushCheckpoint,
  { isNew = false, upserts = [] }: { readonly isNew?: boolean; readonly upserts?: readonly Upsert[] },
): Promise<void> {
  const { job } = context;
  const row = {
    segment_id: checkpoint.segment_id,
    ...(checkpoint.size === null ? {} : { current_size: String(checkpoint.size) }),
    ...(job.segmentName === null ? {} : { name: job.segmentName }),
    // The service has no call that changes it.
    ...(job.description === null || !isNew ? {} : { description: job.description }),
    ...(job.segmentId === null ? { source: "api" } : {}),
  };
  await context.commit({
    upserts: [
      { table: "segment", columns: Object.keys(row), rows: [Object.values(row)], isBookkeeping: !isNew },
      ...upserts,
    ],
    checkpoints: [{ stream: PUSH_STREAM, cursor: { ...checkpoint, name: job.segmentName } }],
  });
}

/**
 * Compares the query with the segment. Reads all pages of the segment if there are changes, if its size differs from the size
 * after the last run, and every {@link FULL_SWEEP_EVERY_MS}.
 */
async function compare(
  context: Context,
  before: PushCheckpoint,
): Promise<{ readonly counts: PushCounts; readonly checkpoint: PushCheckpoint }> {
  const { job, run, db, retryWhileDown, request } = context;
  const segmentId = before.segment_id;
  const target = { job: run.job, segmentId };
  const counts = await retryWhileDown(() => countPush(db, target));
  const read: ReadPage = async (page) => {
    const reply = await context.call(pageCall(segmentId, page));
    if (reply.kind === "refused") throw gone(context, members.name, segmentId, false);
    return { ...reply.value, page, seenAt: reply.answeredAt };
  };
  const first = await read(1);
  const isDue = request.fullRefresh || isOver(before.read_at, FULL_SWEEP_EVERY_MS, Date.parse(first.seenAt));
  const isDifferent =
    counts.toAdd > 0 || counts.unknown > 0 || (job.mode === "mirror" && counts.toRemove > 0);
  if (!isDue && !isDifferent && before.size === first.totalCount) return { counts, checkpoint: before };
  const isComplete = await readSegment(context, segmentId, read, first);
  const reading = { segmentId, isComplete, retriesInvalid: isDue };
  await context.commit({ also: (writing) => comparePush(writing, reading) });
  await retryWhileDown(() => clearListed(db, run, segmentId));
  return {
    counts: await retryWhileDown(() => countPush(db, target)),
    checkpoint: {
      segment_id: segmentId,
      read_at: isComplete ? first.seenAt : before.read_at,
      size: first.totalCount,
    },
  };
}

/** Reads all pages. Returns true if the number of listed members equals the size that every page reported. */
async function readSegment(
  { db, run, retryWhileDown }: Context,
  segmentId: string,
  read: ReadPage,
  first: AnsweredPage,
): Promise<boolean> {
  await retryWhileDown(() => clearListed(db, run, segmentId));
  let listed = 0;
  let isSteady = true;
  for await (const page of readPages(read, first)) {
    const pids = page.members.map(({ servicePid }) => servicePid);
    listed += await retryWhileDown(() => noteListedPids(db, run, segmentId, pids));
    if (page.totalCount !== first.totalCount) isSteady = false;
  }
  return isSteady && listed === first.totalCount;
}

/** Adds, then removes. Returns false if `--max-records` left some PIDs. */
async function changeAll(
  context: Context,
  segmentId: string,
  counts: PushCounts,
  pushed: Pushed,
): Promise<boolean> {
  const { job, progress } = context;
  let isDone = false;
  try {
    if (job.mode === "mirror") await confirmRemovals(context, counts);
    progress.start(job.name, counts.toAdd, add.name);
    isDone =
      (await changeListed(context, segmentId, "add", pushed)) &&
      (job.mode === "append" || (await changeListed(context, segmentId, "remove", pushed)));
    return isDone;
  } finally {
    progress.end(job.name);
    const left = counts.toAdd - pushed.sent;
    // Unsent PIDs belong to people erased since the comparison.
    context.count(isDone ? { records_suppressed: left } : { records_remaining: left });
  }
}

/** Asks before removing more members than `max_remove_ratio` allows. */
async function confirmRemovals(context: Context, { toRemove, own }: PushCounts): Promise<void> {
  const { job, request } = context;
  if (toRemove <= job.maxRemoveRatio * own) return;
  const share = `${countText(toRemove, "member")} of the ${own} that it added`;
  await confirm(context, job.name, request, {
    kind: "ask",
    reason: `the query no longer returns ${share}: more than max_remove_ratio (${job.maxRemoveRatio}) allows`,
  });
}

interface Pushed {
  /** PIDs in answered calls. */
  done: number;
  sent: number;
  added: number;
  removed: number;
  rejected: number;
  /** Size of the segment after the last call; null if the service omitted it. */
  size: number | null;
}

/** Adds or removes all pending PIDs. Returns false if `--max-records` left some. */
async function changeListed(
  context: Context,
  segmentId: string,
  change: PushChange,
  pushed: Pushed,
): Promise<boolean> {
  const { request, db, run, retryWhileDown } = context;
  let size = BATCH_PIDS;
  let after = "";
  for (;;) {
    const limit = Math.min(size, (request.maxRecords ?? Number.POSITIVE_INFINITY) - pushed.done);
    if (limit <= 0) {
      const counts = await retryWhileDown(() => countPush(db, { job: run.job, segmentId }));
      return (change === "add" ? counts.toAdd : counts.toRemove) === 0;
    }
    const begin = { change, after, limit };
    const { pids, last } = await retryWhileDown(() => takeBatch(db, run, segmentId, begin));
    if (last === null) return true;
    if (pids.length === 0 || (await sendBatch(context, segmentId, { change, pids, pushed }))) after = last;
    else {
      await retryWhileDown(() => returnBatch(db, run, segmentId, { change, pids }));
      size = Math.ceil(pids.length / 2);
    }
  }
}

/** Makes one call and records its answer. Returns false if the service rejected it as too large. */
async function sendBatch(
  context: Context,
  segmentId: string,
  batch: { readonly change: PushChange; readonly pids: readonly string[]; readonly pushed: Pushed },
): Promise<boolean> {
  const { change, pids, pushed } = batch;
  const target = change === "add" ? add : remove;
  const reply = await context.call({
    ...changeCall(target, segmentId, pids),
    expects: pids.length > 1 ? [404, 413] : [404],
  });
  if (reply.kind === "refused") {
    if (reply.status === 404) throw gone(context, target.name, segmentId, pushed.done > 0);
    return false;
  }
  const { value: answer, apiRequestId, mayBeDone } = reply;
  const invalid = change === "add" ? invalidOf(pids, answer.invalid) : [];
  const finished = {
    segmentId,
    change,
    pids,
    invalid,
    isOwn: madeAllMembers(answer, mayBeDone),
    apiRequestId,
    rejectMessage: `${target.name}: the service does not have this PID.`,
  };
  const counters = count(pushed, change, { sent: pids.length, invalid: invalid.length, answer });
  await context.commit({
    also: (writing) => finishBatch(writing, finished),
    counters,
    drift: reply.drift.entries(),
  });
  context.progress.advance(context.job.name, pids.length, { rejected: invalid.length });
  return true;
}

/** Error for a push into a segment that does not exist. */
function gone({ job }: Context, endpoint: string, segmentId: string, isChanged: boolean): StopJobError {
  const reset = job.segmentId === null ? ` or run \`checkpoint reset ${job.name}\` to create a new one` : "";
  const soFar = isChanged ? "Earlier changes are kept." : "Nothing was changed.";
  return new StopJobError(
    "segment_gone",
    `${job.name}: ${endpoint}: the service has no segment ${segmentId} (404): it was deleted, or belongs to another ` +
      `organization. ${soFar} Correct \`segment_id:\`${reset}.`,
  );
}

/** True if no PID of an add was a member before. An earlier attempt without an answer may have added some. */
function madeAllMembers({ redundant }: Pick<ChangeAnswer, "redundant">, mayBeDone: boolean): boolean {
  return redundant === 0 && !mayBeDone;
}

/** Adds an answer to the totals; returns the counters of its commit. */
function count(
  pushed: Pushed,
  change: PushChange,
  {
    sent,
    invalid,
    answer,
  }: { readonly sent: number; readonly invalid: number; readonly answer: ChangeAnswer },
) {
  pushed.done += sent;
  pushed.size = answer.newSize;
  if (change === "remove") {
    pushed.removed += answer.changed ?? 0;
    return {};
  }
  pushed.sent += sent;
  pushed.added += answer.changed ?? 0;
  pushed.rejected += invalid;
  return { records_sent: sent, records_matched: sent - invalid, records_rejected: invalid };
}

const plain = (pid: string): string => pid.trim().toLowerCase();

/** Returns the PIDs reported as invalid, even if spelled differently. */
function invalidOf(given: readonly string[], invalid: readonly string[]): readonly string[] {
  if (invalid.length === 0) return [];
  const [asked, exact] = [new Set(given), new Set(invalid)];
  const others = new Set(invalid.filter((pid) => !asked.has(pid)).map(plain));
  return given.filter((pid) => exact.has(pid) || others.has(plain(pid)));
}

/** Rejects each row of the query without a PID. */
function rejectMissing({ job, run, clock }: Context, { missing }: GivenRows): Upsert {
  const at = new Date(clock.now()).toISOString();
  return upsertRejects({ run, source: job.name, code: "missing_key", apiRequestId: null, at }, function* () {
    for (let n = 1; n <= missing; n++) {
      yield {
        identity: ["row without a PID", job.name, String(n)],
        sourceKey: null,
        message: "The query returned a row without a service_pid.",
      };
    }
  });
}
