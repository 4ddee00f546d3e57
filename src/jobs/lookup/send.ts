import { randomUUID } from "node:crypto";
import { LimitReachedError, StopJobError } from "../../errors.ts";
import { type Batch, expectedMemory, itemsOf, withoutItems } from "../../extract/batches.ts";
import { decide, giveUpIsolation, isIsolationOver, type Outcome } from "../../extract/decide.ts";
import { type HttpReply, type HttpResponse, OverflowError } from "../../extract/http-client.ts";
import { isFilePart } from "../../body.ts";
import { type Lease, releaseLease, takeMemory } from "../../extract/memory.ts";
import {
  applyOutcome,
  batchesOf,
  closeQueue,
  countCall,
  cutForCall,
  openQueue,
  planBatch,
  type Queue,
  refuseBatch,
  returnBatch,
  stopQueue,
} from "../../extract/queue.ts";
import {
  attemptsOf,
  type EndedCall,
  isAnswer,
  sendCall,
  unansweredAttempt,
  understandReply,
  type UnderstoodReply,
} from "../../extract/send-call.ts";
import { keyRejected } from "../../extract/retry.ts";
import { commitLookup } from "../../load/lookups/commit.ts";
import type { LookupRecord, LookupSpec } from "../../load/lookups/lookup.ts";
import type { LookupSelection } from "../../load/lookups/selection.ts";
import { countAttempts, readCutAt, recordAttempts } from "../../load/ledger/ledger.ts";
import type { Attempt } from "../../schemas/ledger.ts";
import type { ErrorBody } from "../../schemas/error-body.ts";
import { explainSpoolFailure } from "../../spool/spool.ts";
import { priceOf } from "../price.ts";
import type { JobContext } from "../job.ts";
import { headerOf, type HeaderOfRun } from "./response-rows.ts";
import {
  commitAnswer,
  createLoader,
  type LoadableAnswer,
  type Loader,
  readReceived,
  readUnspooled,
  type Recorded,
} from "./load-response.ts";
import { type JobLimits, reserve } from "./lookup-spec.ts";
import type { JobSpool } from "./job-spool.ts";
import { type Lookup, type LookupJobConfig, lookupOf } from "./lookup-types.ts";

export type Task = JobContext<LookupJobConfig> & { readonly spec: LookupSpec };

export interface Selected extends JobSpool {
  readonly selection: LookupSelection;
  readonly tally: Tally;
  readonly limits: JobLimits;
}

export interface Unanswered {
  readonly records: number;
  /** The last reason, as a sentence. */
  readonly because: string;
}

/** Outcomes recorded so far, for the progress bar. The warehouse counts what the run reports. */
export interface Tally {
  matched: number;
  rejected: number;
  /** Records without an answer, which stay due; null for none. */
  unanswered: Unanswered | null;
}

interface Sending extends Task, Selected {
  readonly lookup: Lookup;
  readonly queue: Queue<LookupRecord>;
  readonly loader: Loader;
  readonly header: HeaderOfRun;
  readonly commits: Set<Promise<void>>;
  /** Aborted once nothing more may be sent. */
  readonly stopping: AbortController;
  /** Resolves then. */
  readonly halt: PromiseWithResolvers<void>;
  /** Most severe reason; null for none. */
  stopped: { readonly reason: unknown } | null;
  /** Calls that need space in the spool. */
  callsUnderWay: number;
}

/**
 * Sends what is due and loads the answers. Before an early end, calls in flight are finished and their answers committed,
 * unless the warehouse fails.
 */
export async function sendDue(task: Task, selected: Selected): Promise<void> {
  const { db, job, run, spec, clock, limiter, signal } = task;
  const { selection, spool, warehouseName: warehouse } = selected;
  const lookup = lookupOf(job);
  const { endpoint, requestParameters: parameters } = lookup;
  const cutAt = await readCutAt(db, endpoint.name);
  const pages = selection.records();
  const s: Sending = {
    ...task,
    ...selected,
    lookup,
    queue: openQueue({ endpoint, pages, clock, concurrency: limiter.concurrency, cutAt }),
    loader: createLoader(task, spool, false),
    header: { warehouse, run, spec, parameters },
    commits: new Set(),
    stopping: new AbortController(),
    halt: Promise.withResolvers(),
    stopped: null,
    callsUnderWay: 0,
  };
  const onAbort = () => {
    stop(s);
  };
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    await Promise.all(Array.from({ length: limiter.concurrency }, () => sendBatches(s)));
    await Promise.all(s.commits);
  } finally {
    signal.removeEventListener("abort", onAbort);
    await closeQueue(s.queue);
  }
  if (s.stopped) throw s.stopped.reason;
}

/** Ranks reasons: a failure above a limit, the end of the run above the end of the job. */
function weightOf(reason: unknown): number {
  if (reason instanceof LimitReachedError) return 1;
  return reason instanceof StopJobError ? 2 : 3;
}

/** Stops sending; without a reason at a signal. */
function stop(s: Sending, reason: unknown = null): void {
  if (reason !== null && (s.stopped === null || weightOf(reason) > weightOf(s.stopped.reason))) {
    s.stopped = { reason };
  }
  stopQueue(s.queue);
  s.stopping.abort();
  s.halt.resolve();
}

async function sendBatches(s: Sending): Promise<void> {
  try {
    for await (const batch of batchesOf(s.queue)) await oneCall(s, batch);
  } catch (error) {
    stop(s, error);
  }
}

/** Sends one batch and decides on its records; the rows of its answer are committed meanwhile. */
async function oneCall(s: Sending, batch: Batch<LookupRecord>): Promise<void> {
  if (isIsolationOver(batch)) {
    const outcome = giveUpIsolation(s.lookup.endpoint.name, batch);
    stopIf(s, applyOutcome(s.queue, batch, outcome));
    await recordOutcome(s, null, outcome);
    returnBatch(s.queue, []);
    return;
  }
  const lease = await makeRoom(s, batch);
  let answer: LoadableAnswer | null = null;
  try {
    const call = await inTurn(s, () => reserveAndSend(s, batch, lease));
    if (call === null) return;
    // From here on, the answer has the memory.
    if (isAnswer(call.reply)) answer = await spoolAndRead(s, call, call.reply, lease);
    if (answer) startCommit(s, answer);
    const reply = await understandReply(call.reply, s.clock);
    const outcome = decideNow(s, call, reply, answer);
    // Recorded before anything is sent again.
    await recordOutcome(s, answer ? null : unansweredAttempt(call, reply), outcome);
    if (outcome.kind === "renew_key") await renewKey(s, call.reply, reply.error);
    returnBatch(s.queue, outcome.again);
  } finally {
    s.callsUnderWay -= 1;
    if (answer === null) releaseLease(lease);
  }
}

/** Waits until the spool and the memory have space for one more answer. */
async function makeRoom(s: Sending, batch: Batch<LookupRecord>): Promise<Lease> {
  const { spool, queue } = s;
  while (!spool.hasSpace(s.callsUnderWay) && !queue.isStopped) {
    await Promise.race([spool.nextRemoval(), s.halt.promise]);
  }
  s.callsUnderWay += 1;
  const { memory } = s.http;
  // As many calls as are allowed find memory; an answer that needs more may have to be read from disk.
  const share = memory.maxBytes / s.limiter.concurrency;
  return await takeMemory(memory, Math.min(share, expectedMemory(queue.size, batch.entries.length)));
}

/** Makes a call when the limiter allows it. Null if it was not made. */
async function inTurn<Result>(s: Sending, make: () => Promise<Result | null>): Promise<Result | null> {
  const { signal } = s.stopping;
  let hasTurn = false;
  const call = () => {
    hasTurn = true;
    return make();
  };
  try {
    return await s.limiter.run(s.lookup.endpoint.name, call, signal);
  } catch (error) {
    if (hasTurn || !signal.aborted) throw error;
    return null;
  }
}

/** Null if nothing may be sent; then the batch is requeued. */
async function reserveAndSend(
  s: Sending,
  batch: Batch<LookupRecord>,
  lease: Lease,
): Promise<EndedCall<LookupRecord> | null> {
  const { lookup, queue } = s;
  const callId = randomUUID();
  const planned = planBatch(queue, batch);
  const granted = planned && (await reserveBatch(s, callId, planned));
  if (granted === null) return null;
  const setting = { ...s, endpoint: lookup.endpoint, parameters: lookup.requestParameters };
  const room = { lease, overflowPath: s.spool.overflowPath(callId) };
  const call = await sendCall(setting, callId, countCall(queue, granted), room);
  const { stopError } = call;
  if (stopError instanceof OverflowError) stop(s, explainSpoolFailure(stopError.cause, s.spool.folder));
  else if (stopError !== null) stop(s, stopError);
  return call;
}

/** Reserves a batch, without records whose claim was lost, such as those of people erased meanwhile. Null if nothing is granted; then the batch is requeued. */
async function reserveBatch(
  s: Sending,
  callId: string,
  planned: Batch<LookupRecord>,
): Promise<Batch<LookupRecord> | null> {
  const { queue, lookup, run, spec, limits } = s;
  const call = {
    callId,
    endpoint: lookup.endpoint.name,
    attempt: 1 + attemptsOf(planned),
    startedAt: new Date(s.clock.now()).toISOString(),
    limits,
    price: priceOf(s.config, run.jobType),
  };
  const usedUp = (limit: string) => `${run.job}: ${limit} is used up; no more records can be sent.`;
  // With other calls in flight, a limit may still release records.
  const isAlone = queue.isBudgetTight;
  for (let batch = planned; batch.entries.length > 0; ) {
    try {
      const records = itemsOf(batch.entries);
      const asked = { ...call, records: records.length, claimed: { kind: spec.kind, records } };
      const { granted, lost = [] } = await reserve(s, asked, usedUp);
      if (lost.length === 0) return cutForCall(queue, batch, granted);
      const isLost = new Set(lost);
      batch = withoutItems(batch, ({ recordId }) => isLost.has(recordId));
    } catch (reason) {
      if (isAlone || !(reason instanceof LimitReachedError)) stop(s, reason);
      refuseBatch(queue, batch);
      return null;
    }
  }
  returnBatch(queue, []);
  return null;
}

/** Writes an answer to disk before anything else, then reads it. */
async function spoolAndRead(
  s: Sending,
  call: EndedCall<LookupRecord>,
  reply: HttpResponse,
  lease: Lease,
): Promise<LoadableAnswer> {
  const { callId, startedAtMs, milliseconds } = call;
  const header = headerOf(s.header, call, reply);
  const { body } = reply;
  const received = { header, body, lease };
  const isEmpty = body.length === 0;
  let isWritten = false;
  try {
    const file = await s.spool.write({ callId, receivedAtMs: startedAtMs + milliseconds, header, body });
    isWritten = true;
    return await readReceived(s.loader, file, received);
  } catch (error) {
    // Load the answer from where it is, but send no more.
    stop(s, error);
    // No longer there, as it is on disk: the next run loads it.
    if (isFilePart(body) ? isWritten : body.length === 0 && !isEmpty) throw error;
    return await readUnspooled(s.loader, received);
  }
}

function startCommit(s: Sending, answer: LoadableAnswer): void {
  const commit = async () => {
    try {
      advance(s, await commitAnswer(s.loader, answer));
    } catch (error) {
      stop(s, error);
    }
  };
  const task = commit().finally(() => s.commits.delete(task));
  s.commits.add(task);
}

/** Decides on a call and applies the decision to the queue at once, before another call can. */
function decideNow(
  s: Sending,
  call: EndedCall<LookupRecord>,
  reply: UnderstoodReply,
  answer: LoadableAnswer | null,
): Outcome<LookupRecord> {
  const { queue, clock, random, http, limiter, log } = s;
  const { isAnswering, capacity, passed } = queue;
  const service = { isAnswering, capacity, passed, origin: http.origin };
  const present = { nowMs: clock.now(), random: random(), ...service };
  const outcome = decide(call, reply, answer?.summary ?? null, present);
  stopIf(s, limiter.report(call.endpoint, outcome.report));
  stopIf(s, applyOutcome(queue, call.batch, outcome));
  if (outcome.kind !== "answer") {
    const { endpoint, attempt, milliseconds, items } = call;
    const { cause, kind: action } = outcome;
    log.debug({ endpoint, cause, attempt, milliseconds, records: items.length, action }, "call_failed");
  }
  return outcome;
}

function stopIf(s: Sending, error: Error | null): void {
  if (error) stop(s, error);
}

/**
 * Records rejected records and those without an answer.
 * @param attempt ledger entry of a call without an answer; null for an answer, which is recorded with its rows
 */
async function recordOutcome(
  s: Sending,
  attempt: Attempt | null,
  { rejected, sentWithoutResult, setAside }: Outcome<LookupRecord>,
): Promise<void> {
  const { db, run, spec, selection } = s;
  const ledger = attempt ? [attempt] : [];
  if (rejected.length > 0) {
    const rejects = rejected.flatMap(({ items, ...why }) => items.map((record) => ({ record, ...why })));
    const commit = { run, spec, ledger, answers: [], rejects, drift: [] };
    await commitLookup(db, commit);
    advance(s, commit);
  } else if (attempt) {
    await recordAttempts(db, run, ledger, countAttempts(ledger));
  }
  const sent = [...sentWithoutResult, ...setAside.flatMap(({ items }) => items)];
  if (sent.length > 0) {
    await selection.markSent(sent);
  }
  for (const { items, message } of setAside) {
    const records = (s.tally.unanswered?.records ?? 0) + items.length;
    s.tally.unanswered = { records, because: message };
    showProgress(s, items.length);
  }
}

function advance(s: Sending, { answers, rejects }: Recorded): void {
  s.tally.matched += answers.filter(({ outcome }) => outcome === "matched").length;
  s.tally.rejected += rejects.length;
  showProgress(s, answers.length + rejects.length);
}

function showProgress({ progress, run, tally }: Sending, by: number): void {
  const { matched, rejected } = tally;
  progress.advance(run.job, by, { matched, rejected });
}

/** Reads a rejected key again; ends the run if it is still the same. */
async function renewKey(s: Sending, reply: HttpReply, error: ErrorBody): Promise<void> {
  const isNew = reply.kind === "response" && (await s.http.renewKey(reply.keyVersion));
  if (!isNew) stop(s, keyRejected(s.lookup.endpoint.name, error));
}
