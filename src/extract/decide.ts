import type { LimitReachedError, StopJobError, StopRunError } from "../errors.ts";
import {
  type Batch,
  type Capacity,
  capacityAfterRefusal,
  type Entry,
  type Fault,
  faultsByRecord,
  faultsOutside,
  itemsOf,
  MAX_ISOLATION_CALLS,
  type Passed,
  refusalSignature,
} from "./batches.ts";
import { ABANDONED, BODY_TOO_LARGE } from "./http-client.ts";
import type { CallReport } from "./limits.ts";
import {
  capacityUsedUp,
  decideRetry,
  type Decision,
  isPossiblyBilled,
  jobStopped,
  redirected,
  where,
} from "./retry.ts";
import { answered, type EndedCall, reportOf, type UnderstoodReply, unusableAnswer } from "./send-call.ts";
import type { ReadSummary } from "./take-answer.ts";

/** Records that could not be processed and will not be sent again. */
interface Rejected<T> {
  readonly items: readonly T[];
  /** `send`: rejected by the service; `answer`: missing in two answers. */
  readonly stage: "send" | "answer";
  readonly code: string;
  readonly message: string;
  /** Paths and expected types, never values; null if the service reported none. */
  readonly details: readonly Fault[] | null;
  readonly apiRequestId: string | null;
}

/** Records that are sent no more in this run and remain due; the job fails. */
interface SetAside<T> {
  readonly items: readonly T[];
  readonly code: string;
  readonly message: string;
}

/** Decision on the records of a call. Records not listed here have a result in the answer. */
export interface Outcome<T> {
  readonly kind:
    | "answer"
    | "retry"
    | "isolate"
    | "halve"
    | "reject"
    /** Sent no more in this run; they remain due. */
    | "set_aside"
    | "isolation_limit"
    | "use_capacity"
    | "renew_key"
    | "stop";
  /** Status and code, for messages. */
  readonly cause: string;
  readonly report: CallReport;
  readonly rejected: readonly Rejected<T>[];
  readonly setAside: readonly SetAside<T>[];
  /** Records without a result that may have been processed; `again` and `setAside` say what happens to them. */
  readonly sentWithoutResult: readonly T[];
  readonly again: readonly Batch<T>[];
  readonly answer: AnswerFacts | null;
  /** Reason of rejections or missing results, equal for similar ones; null for none. */
  readonly signature: string | null;
  /** True if the request or its answer was too large. */
  readonly isTooLarge: boolean;
  /** True if the answer broke off, probably because of its size. */
  readonly isCut: boolean;
  /** Capacity from now on; null for no change. */
  readonly capacity: Capacity | null;
  /** Error that ends the job or the run; null for none. */
  readonly stop: LimitReachedError | StopJobError | StopRunError | null;
}

interface AnswerFacts {
  readonly plainBytes: number;
  readonly bodyBytes: number;
  readonly missing: number;
  readonly isMostMissing: boolean;
}

interface Circumstances {
  readonly nowMs: number;
  /** From 0 (inclusive) to 1 (exclusive). */
  readonly random: number;
  readonly isAnswering: boolean;
  readonly capacity: Capacity;
  readonly passed: Passed;
  /** Address of the service, for messages. */
  readonly origin: string;
}

interface Case<T> extends Circumstances {
  readonly call: EndedCall<T>;
  readonly reply: UnderstoodReply;
  readonly outcome: Outcome<T>;
  readonly possiblyBilled: boolean;
}

const nothing = {
  rejected: [],
  setAside: [],
  sentWithoutResult: [],
  again: [],
  answer: null,
  signature: null,
  isTooLarge: false,
  isCut: false,
  capacity: null,
  stop: null,
};

const MISSING_RESULTS = "200, results missing";

/**
 * Decides how to handle the records of a call; pure.
 * @param read summary of the answer of a 200; null for other replies
 */
export function decide<T>(
  call: EndedCall<T>,
  given: UnderstoodReply,
  read: ReadSummary | null,
  circumstances: Circumstances,
): Outcome<T> {
  const { entries, refusals } = call.batch;
  const reply = judgeAnswer(call, given, read);
  const possiblyBilled = isPossiblyBilled(reply.outcome);
  const unansweredCalls = Math.max(...entries.map((entry) => entry.unansweredCalls));
  const history = { refusals, unansweredCalls, random: circumstances.random };
  const decision = decideRetry(reply.outcome, history);
  const isOversized = call.reply.kind === "failure" && call.reply.code === BODY_TOO_LARGE;
  const isTooLarge = read?.kind === "unreadable" ? read.isTooLarge : isOversized;
  const outcome: Outcome<T> = {
    ...nothing,
    kind: "stop",
    cause: reply.cause,
    report: reportOf(reply.outcome, call, decision),
    sentWithoutResult: possiblyBilled ? call.items : [],
    isTooLarge: isTooLarge || decision.action === "halve",
    isCut: isBroken(call, read) && isLarger(call, circumstances.passed),
  };
  const batch = possiblyBilled ? { ...call.batch, entries: entries.map(withUnansweredCall) } : call.batch;
  return follow(
    decision,
    { ...circumstances, call: { ...call, batch }, reply, outcome, possiblyBilled },
    read,
  );
}

function follow<T>(decision: Decision, decided: Case<T>, read: ReadSummary | null): Outcome<T> {
  const { call, reply, outcome } = decided;
  const { batch, endpoint } = call;
  switch (decision.action) {
    case "accept":
      return read?.kind === "answer" ? acceptAnswer(decided, read) : outcome;
    case "retry":
      return retryLater(decided, decision.afterMs);
    case "set_aside":
      return outcome.isTooLarge && batch.entries.length === 1 && decided.isAnswering
        ? rejectTooLarge(decided)
        : setAsideAll(decided);
    case "isolate":
      return isolateRefused(decided);
    case "halve":
      return halve(decided);
    case "use_capacity":
      return useCapacity(decided);
    case "renew_key":
      return { ...outcome, kind: "renew_key", again: [batch] };
    case "stop_run":
      return { ...outcome, stop: redirected(endpoint, decided.origin, call.reply) };
    case "stop_job":
      return { ...outcome, stop: jobStopped(decision.code, endpoint, { ...reply, reply: call.reply }) };
    default:
      return decision satisfies never;
  }
}

/** Sets aside a batch that used up its calls for finding rejected records; pure. */
export function giveUpIsolation<T>(endpoint: string, batch: Batch<T>): Outcome<T> {
  const message =
    `${endpoint}: the service rejects records of this batch without naming them, and ${MAX_ISOLATION_CALLS} ` +
    "calls with parts of it did not find them all.";
  return {
    ...nothing,
    kind: "isolation_limit",
    cause: "isolation_limit",
    report: { kind: "other" },
    setAside: [{ items: itemsOf(batch.entries), code: "isolation_limit", message }],
  };
}

export function isIsolationOver({ origin }: Batch<unknown>): boolean {
  return (origin.isolationCalls ?? 0) >= MAX_ISOLATION_CALLS;
}

function judgeAnswer<T>(
  { batch: { entries } }: EndedCall<T>,
  given: UnderstoodReply,
  read: ReadSummary | null,
): UnderstoodReply {
  if (read === null) return given.outcome.kind === "answer" ? unusableAnswer("unread") : given;
  if (read.kind === "unreadable") return unusableAnswer(read.reason);
  // An empty list counts as no answer, unless it confirms that all these records have no result.
  const isEmpty = read.missing.length === entries.length;
  const isConfirmed = entries.every((entry) => entry.wasLeftOut);
  return isEmpty && !isConfirmed ? unusableAnswer("without results") : answered;
}

/** True if the body of an answer ended early; our own ends say nothing about the link. */
function isBroken({ reply }: EndedCall<unknown>, read: ReadSummary | null): boolean {
  if (reply.kind === "response") return read?.kind === "unreadable" && !read.isTooLarge;
  return reply.status === 200 && reply.code !== BODY_TOO_LARGE && reply.code !== ABANDONED;
}

/** True if nothing as large came through: otherwise, its size is not what cut an answer. */
function isLarger({ items, bodyBytes }: EndedCall<unknown>, { records, bytes }: Passed): boolean {
  return items.length > records || bodyBytes > bytes;
}

function withUnansweredCall<T>(entry: Entry<T>): Entry<T> {
  return { ...entry, unansweredCalls: entry.unansweredCalls + 1 };
}

function piecesOf<T>(batch: Batch<T>, groups: readonly (readonly Entry<T>[])[]): Batch<T>[] {
  return groups.filter((entries) => entries.length > 0).map((entries) => ({ ...batch, entries }));
}

/** Halves of a batch; the first may be larger by one. */
function halvesOf<T>(batch: Batch<T>): Batch<T>[] {
  const middle = Math.ceil(batch.entries.length / 2);
  return piecesOf(batch, [batch.entries.slice(0, middle), batch.entries.slice(middle)]);
}

function setAsideOf<T>(endpoint: string, entries: readonly Entry<T>[], message: string): SetAside<T>[] {
  if (entries.length === 0) return [];
  return [{ items: itemsOf(entries), code: "no_answer", message: `${endpoint}: ${message}` }];
}

/** Handles an answer: a record without a result is sent once more. The second time, it is rejected if its neighbours have results. */
function acceptAnswer<T>(
  { call, outcome }: Case<T>,
  { missing, plainBytes, apiRequestId }: Extract<ReadSummary, { kind: "answer" }>,
): Outcome<T> {
  const { batch, endpoint, bodyBytes } = call;
  const isMissing = new Set(missing);
  const without = batch.entries.filter((_, position) => isMissing.has(position));
  const isMostMissing = without.length * 2 > batch.entries.length;
  const rejected = without.filter((entry) => entry.wasLeftOut);
  const open = without
    .filter((entry) => !entry.wasLeftOut)
    .map((entry) => ({ ...withUnansweredCall(entry), wasLeftOut: !isMostMissing }));
  const message = `${endpoint}: two responses had no result for this record.`;
  const why = { stage: "answer", code: "missing_result", message, details: null, apiRequestId } as const;
  const lost = `no result after two attempts (${MISSING_RESULTS}); they may have been billed.`;
  const isLast = (entry: Entry<T>) => entry.unansweredCalls > 1;
  return {
    ...outcome,
    kind: "answer",
    answer: { plainBytes, bodyBytes, missing: without.length, isMostMissing },
    rejected: rejected.length === 0 ? [] : [{ items: itemsOf(rejected), ...why }],
    signature: rejected.length > 0 ? "missing_result" : isMostMissing ? MISSING_RESULTS : null,
    sentWithoutResult: itemsOf(open),
    again: piecesOf(batch, [open.filter((entry) => !isLast(entry))]),
    setAside: setAsideOf(endpoint, open.filter(isLast), lost),
  };
}

function retryLater<T>({ call, nowMs, outcome, possiblyBilled }: Case<T>, afterMs: number): Outcome<T> {
  const refusals = call.batch.refusals + (possiblyBilled ? 0 : 1);
  const batch = { ...call.batch, dueAtMs: nowMs + afterMs, refusals };
  // Each record is sent once more at most, so halving would not find the one that is to blame.
  const groups = outcome.isTooLarge ? batch.entries.map((entry) => [entry]) : [batch.entries];
  return { ...outcome, kind: "retry", again: piecesOf(batch, groups) };
}

function setAsideAll<T>({ call, reply, outcome, possiblyBilled }: Case<T>): Outcome<T> {
  const charge = possiblyBilled ? "they may have been billed" : "nothing was billed";
  const message = `No response after ${call.attempt} attempts (${where(reply.cause, reply.error)}); ${charge}.`;
  return { ...outcome, kind: "set_aside", setAside: setAsideOf(call.endpoint, call.batch.entries, message) };
}

/** Rejects a record whose answer is too large, while others are answered: every run would pay for it in vain. */
function rejectTooLarge<T>({ call, reply, outcome }: Case<T>): Outcome<T> {
  const why = {
    stage: "answer",
    code: "answer_too_large",
    message: `${call.endpoint}: two responses were too large, the second one for this record alone.`,
    details: null,
    apiRequestId: reply.error.apiRequestId,
  } as const;
  const rejected = [{ items: call.items, ...why }];
  return { ...outcome, kind: "reject", rejected, sentWithoutResult: [], signature: "200, too large" };
}

function halve<T>(decided: Case<T>): Outcome<T> {
  const { call, outcome } = decided;
  if (call.batch.entries.length > 1) return { ...outcome, kind: "halve", again: halvesOf(call.batch) };
  const rejected = call.batch.entries.map((entry) => rejectRefused(decided, entry, []));
  return { ...outcome, kind: "reject", rejected, signature: "413" };
}

function useCapacity<T>({ call, reply: { error }, capacity, outcome }: Case<T>): Outcome<T> {
  const after = capacityAfterRefusal(capacity, error.recordsAvailable, call.batch.wasTight);
  return {
    ...outcome,
    kind: "use_capacity",
    again: [call.batch],
    capacity: after.capacity,
    stop: after.isUsedUp ? capacityUsedUp(call.endpoint, error) : null,
  };
}

function rejectRefused<T>(
  { call, reply: { error, cause } }: Case<T>,
  entry: Entry<T>,
  faults: readonly Fault[],
): Rejected<T> {
  const named = faults.map(({ path, type }) => `${path || "record"}${type === null ? "" : ` (${type})`}`);
  const at = named.length === 0 ? "" : `: ${named.slice(0, 5).join(", ")}`;
  return {
    items: [entry.item],
    stage: "send",
    code: faults.find(({ type }) => type !== null)?.type ?? error.code ?? `http_${call.reply.status}`,
    message: `${call.endpoint}: the service rejected this record (${cause})${at}.`,
    details: faults.length === 0 ? null : faults,
    apiRequestId: error.apiRequestId,
  };
}

/** Rejects the records named by the service, or splits the batch to find them. */
function isolateRefused<T>(decided: Case<T>): Outcome<T> {
  const { call, reply, outcome } = decided;
  const { batch } = call;
  const { error, cause } = reply;
  const signature = refusalSignature(call.reply.status ?? 0, error);
  const isolated: Outcome<T> = { ...outcome, kind: "isolate", signature };
  const faultsByIndex = faultsByRecord(error, batch.entries.length);
  if (faultsByIndex.size === 0) {
    const place = faultsOutside(error);
    if (place !== null) {
      const end = { reply: call.reply, cause: `${cause} at ${place}`, error };
      return { ...outcome, stop: jobStopped("request_refused", call.endpoint, end) };
    }
    if (batch.entries.length > 1) return { ...isolated, again: halvesOf(batch) };
  }
  const isOnly = batch.entries.length === 1;
  const rejected = batch.entries.flatMap((entry, index) => {
    const faults = faultsByIndex.get(index) ?? (isOnly ? [] : null);
    return faults ? [rejectRefused(decided, entry, faults)] : [];
  });
  const others = batch.entries.filter((_, index) => !faultsByIndex.has(index));
  return { ...isolated, rejected, again: isOnly ? [] : piecesOf(batch, [others]) };
}
